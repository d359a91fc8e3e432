"""Images that are folders, for a runtime that makes its containers of such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.agent.images.credentials import Credential
from fairlead.agent.images_seam import InvalidName, ListedImage, PullFailure
from fairlead.node.eviction.candidates import DiskUsage


@dataclass(frozen=True)
class FolderConfig:
    entrypoint: Sequence[str] | None = None
    cmd: Sequence[str] | None = ("sh",)
    env: Sequence[str] | None = ("FROM_IMAGE=yes",)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


@dataclass(frozen=True)
class FolderImage:
    layers: Sequence[Path]
    config: FolderConfig = FolderConfig()
    id: str = "sha256:" + "1" * 64
    size_bytes: int = 1


@dataclass
class FolderImages:
    """One image that is here, and a registry that gives another when it is asked."""

    here: dict[str, FolderImage]
    registry: dict[str, FolderImage] = field(default_factory=dict)
    #: By what the registry asks for: the password.
    passwords: dict[str, str] = field(default_factory=dict)

    def disk_usage(self) -> DiskUsage:
        return DiskUsage(len(self.here), len(self.here))

    def ids(self) -> Sequence[str]:
        return [image.id for image in self.here.values()]

    def listed(self) -> Sequence[ListedImage]:
        return [ListedImage(image.id, [name], image.size_bytes) for name, image in self.here.items()]

    async def remove(self, id_: str) -> None:
        self.here = {name: image for name, image in self.here.items() if image.id != id_}

    def find(self, reference: str) -> FolderImage | None:
        if reference != reference.lower():
            raise InvalidName(f"{reference} is no name of an image")
        return self.here.get(reference)

    def source_of(self, reference: str) -> str:
        return reference

    async def pull(self, reference: str, credential: Credential | None) -> FolderImage:
        wanted = self.passwords.get(reference)
        if wanted is not None and (credential is None or credential.password != wanted):
            raise PullFailure(f"{reference}: 401 Unauthorized")
        if reference not in self.registry:
            raise PullFailure(f"{reference}: not found")
        found = self.here[reference] = self.registry[reference]
        return found
