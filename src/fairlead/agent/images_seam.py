"""What the agent asks of images, so that neither it nor an image store needs the other to be there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from fairlead.agent.images.credentials import Credential
from fairlead.node.eviction.candidates import DiskUsage


class ImageConfig(Protocol):
    """What an image says of the containers that are made of it."""

    @property
    def entrypoint(self) -> Sequence[str] | None: ...

    @property
    def cmd(self) -> Sequence[str] | None: ...

    @property
    def env(self) -> Sequence[str] | None:
        """NAME=VALUE."""
        ...

    @property
    def user(self) -> str: ...

    @property
    def working_dir(self) -> str: ...

    @property
    def stop_signal(self) -> str: ...


class Image(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def config(self) -> ImageConfig: ...

    @property
    def layers(self) -> Sequence[Path]:
        """Directories, the lowest first; whiteouts are overlayfs' own."""
        ...


class ListedImage(NamedTuple):
    id: str
    #: By digest, then by tag.
    names: Sequence[str]
    size_bytes: int


class InvalidName(Exception):
    """The name of an image is none."""


class PullFailure(Exception):
    """Why an image cannot be had."""

    @classmethod
    def of_call(cls, code: str, message: str) -> PullFailure:
        """As a kubelet shows what its runtime answers: a code that says nothing is left out."""
        return cls(message if code == "Unknown" else f"rpc error: code = {code} desc = {message}")


class Images(Protocol):
    def find(self, reference: str) -> Image | None:
        """InvalidName for a reference that is none."""
        ...

    def source_of(self, reference: str) -> str:
        """By which name it is pulled: another one, if this is an alias."""
        ...

    async def pull(self, reference: str, credential: Credential | None) -> Image:
        """PullFailure says why not."""
        ...

    def disk_usage(self) -> DiskUsage:
        """What all images take."""
        ...

    def ids(self) -> Sequence[str]:
        """Of all that are here and may be removed."""
        ...

    def listed(self) -> Sequence[ListedImage]:
        """All that are here."""
        ...

    async def remove(self, id_: str) -> None:
        """Nothing happens to one that is in use, or gone already."""
        ...
