"""Archives of images, made as `docker save` and `skopeo copy` make them; also layers that no tool would make."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.agent.images.manifests import this_machine

HERE = this_machine().architecture
ELSEWHERE = "s390x"

_TYPES = {
    "file": tarfile.REGTYPE,
    "dir": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard": tarfile.LNKTYPE,
    "chr": tarfile.CHRTYPE,
    "fifo": tarfile.FIFOTYPE,
}


@dataclass(frozen=True)
class Entry:
    """One member of a layer."""

    name: str
    data: bytes = b""
    kind: str = "file"
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: float = 1_500_000_000
    link: str = ""
    device: tuple[int, int] = (0, 0)
    xattrs: Mapping[str, str] | None = None


def folder(name: str, mode: int = 0o755, **more: Any) -> Entry:
    return Entry(name, kind="dir", mode=mode, **more)


def link(name: str, target: str) -> Entry:
    return Entry(name, kind="link", link=target)


def hard_link(name: str, target: str) -> Entry:
    return Entry(name, kind="hard", link=target)


def layer(*entries: Entry, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A layer as a plain tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, errors="surrogateescape") as archive:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.type = _TYPES[entry.kind]
            member.mode, member.uid, member.gid, member.mtime = entry.mode, entry.uid, entry.gid, entry.mtime
            member.size, member.linkname = len(entry.data), entry.link
            member.devmajor, member.devminor = entry.device
            member.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in (entry.xattrs or {}).items()}
            archive.addfile(member, io.BytesIO(entry.data))
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(layers: Sequence[bytes], architecture: str = HERE, **options: Any) -> bytes:
    """The configuration of an image of those plain layers."""
    rootfs = {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}
    return json.dumps({"architecture": architecture, "os": "linux", "config": options, "rootfs": rootfs}).encode()


def tar(files: Mapping[str, bytes]) -> bytes:
    return layer(*(Entry(name, data) for name, data in files.items()))


def docker_archive(images: Mapping[str, Sequence[bytes]], **options: Any) -> bytes:
    """What `docker save` used to write: images by their tags."""
    files: dict[str, bytes] = {}
    entries = []
    for tag, layers in images.items():
        document = config(layers, **options)
        name = f"{digest(document).partition(':')[2]}.json"
        files[name] = document
        paths = []
        for plain in layers:
            paths.append(f"{digest(plain).partition(':')[2]}/layer.tar")
            files[paths[-1]] = plain
        entries.append({"Config": name, "RepoTags": [tag] if tag else None, "Layers": paths})
    return tar({**files, "manifest.json": json.dumps(entries).encode()})


class Blobs:
    """The blobs of an OCI layout or of a registry."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def add(self, data: bytes, media_type: str = "", **more: Any) -> dict[str, Any]:
        self.blobs[digest(data)] = data
        return {"digest": digest(data), "size": len(data), "mediaType": media_type, **more}

    def image(self, layers: Sequence[bytes], architecture: str = HERE, **options: Any) -> dict[str, Any]:
        """The descriptor of a manifest whose layers are gzip."""
        packed = [gzip.compress(plain, mtime=0) for plain in layers]
        kind = "application/vnd.oci.image.layer.v1.tar+gzip"
        document: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.add(config(layers, architecture, **options), "application/vnd.oci.image.config.v1+json"),
            "layers": [self.add(data, kind) for data in packed],
        }
        return self.add(
            json.dumps(document).encode(), document["mediaType"], platform={"os": "linux", "architecture": architecture}
        )

    def index(self, *entries: dict[str, Any]) -> dict[str, Any]:
        media_type = "application/vnd.oci.image.index.v1+json"
        return self.add(
            json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}).encode(), media_type
        )

    def archive(self, named: Mapping[str, dict[str, Any]]) -> bytes:
        """An oci-archive with those manifests or indexes by name."""
        entries = [
            {**entry, "annotations": {"org.opencontainers.image.ref.name": name}} for name, entry in named.items()
        ]
        files = {f"blobs/{name.replace(':', '/')}": data for name, data in self.blobs.items()}
        files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
        return tar(files)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
