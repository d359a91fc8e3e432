"""The documents that images are made of: indexes, manifests and configurations (OCI image-spec, Docker's schema 2).

Read with bounds, and only the fields that count. Which of several platforms is this machine's is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from fairlead.agent.images.errors import BadImage, NoPlatform
from fairlead.golang.json import UNREADABLE

INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "i386": "386", "armv7l": "arm"}

#: Which variants of an architecture every machine of it runs, the best first.
_VARIANTS: Final = {"amd64": ("", "v1"), "arm64": ("v8", ""), "arm": ("v7", "v6", "v5", "")}

T = TypeVar("T")


class Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part) or "no platform"


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    size: int = 0
    media_type: str = ""
    platform: Platform | None = None
    annotations: Mapping[str, str] | None = None


class Index(msgspec.Struct, frozen=True, rename="camel"):
    manifests: Sequence[Descriptor]
    media_type: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    config: Descriptor
    layers: Sequence[Descriptor]
    media_type: str = ""


class DockerArchiveImage(msgspec.Struct, frozen=True, rename="pascal"):
    """An entry of `manifest.json` in what `docker save` writes."""

    config: str
    layers: Sequence[str]
    repo_tags: Sequence[str] | None = None


class ContainerConfig(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """How a container of an image is run unless its pod says otherwise."""

    entrypoint: Sequence[str] | None = None
    cmd: Sequence[str] | None = None
    env: Sequence[str] | None = None
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""
    volumes: Mapping[str, object] | None = None
    labels: Mapping[str, str] | None = None


class RootFs(msgspec.Struct, frozen=True):
    diff_ids: Sequence[str]
    type: str = "layers"


class ImageConfig(msgspec.Struct, frozen=True):
    """The document whose digest is the id of an image."""

    rootfs: RootFs
    architecture: str = ""
    os: str = ""
    variant: str = ""
    config: ContainerConfig | None = None


def decode(document: bytes, form: type[T], what: str) -> T:
    """A document of that form; raises BadImage, which says `what` is none."""
    try:
        return msgspec.json.decode(document, type=form)
    except UNREADABLE as error:
        raise BadImage(f"{what} is damaged: {error}") from None


def this_machine() -> Platform:
    machine = os.uname().machine
    return Platform(_ARCHITECTURES.get(machine, machine), "linux")


def runs_here(platform: Platform) -> bool:
    """Whether images of a platform run on this machine. One that says nothing is taken at its word."""
    here = this_machine()
    return platform.os in ("", here.os) and platform.architecture in ("", here.architecture)


def for_this_machine(index: Index, digest: str) -> Descriptor:
    """The first manifest of an index for this machine; else one without a platform. Raises NoPlatform."""
    suiting = [entry for entry in index.manifests if entry.platform is not None and _suits(entry.platform)]
    found = sorted(suiting, key=lambda entry: _rank(entry.platform))
    found += [entry for entry in index.manifests if entry.platform is None]
    if not found:
        offered = ", ".join(dict.fromkeys(str(entry.platform) for entry in index.manifests)) or "nothing"
        raise no_match(digest, offered)
    return found[0]


def no_match(digest: str, offered: str) -> NoPlatform:
    """containerd's text, and what there is instead."""
    return NoPlatform(
        f"no match for platform in manifest {digest}: not found (it has {offered}; this machine is {this_machine()})"
    )


def _suits(platform: Platform) -> bool:
    is_known = platform.os and platform.architecture
    return bool(is_known) and runs_here(platform) and platform.variant in _variants(platform)


def _rank(platform: Platform | None) -> int:
    return 0 if platform is None else _variants(platform).index(platform.variant)


def _variants(platform: Platform) -> Sequence[str]:
    return _VARIANTS.get(platform.architecture, (platform.variant,))
