"""Archives of images: what `docker save`, `podman save`, `skopeo copy` and others write, plain or gzip.

An archive is read once to learn where its members are; then they are read as they are needed. One that is gzip is
decompressed into a temporary file first.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from fairlead.agent.images import references
from fairlead.agent.images.contents import ImageContents, LayerSource
from fairlead.agent.images.errors import BadImage, InvalidReference
from fairlead.agent.images.limits import PIECE, Limits
from fairlead.agent.images.manifests import (
    INDEX_TYPES,
    Descriptor,
    DockerArchiveImage,
    Index,
    Manifest,
    decode,
    for_this_machine,
    no_match,
    runs_here,
)
from fairlead.agent.images.streams import Decompressed, Section, digest_of
from fairlead.agent.images.tar import Kind, TarReader

_OCI, _OCI_INDEX, _DOCKER = "oci-layout", "index.json", "manifest.json"
#: In the order in which they are believed.
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_MOST_MEMBERS: Final = 100_000
_MOST_NESTED: Final = 3  # indexes in indexes

T = TypeVar("T")


class _Place(msgspec.Struct, frozen=True):
    offset: int
    size: int


class Archive:
    """The members of an archive, by name."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._places: dict[str, _Place] = {}
        self.is_empty = True
        links: dict[str, str] = {}
        reader = TarReader(file, limits)
        for member in reader:
            self.is_empty = False
            name = posixpath.normpath(member.name.lstrip("/"))
            if member.kind is Kind.FILE:
                self._places[name] = _Place(reader.position, member.size)
            elif member.kind is Kind.SYMBOLIC_LINK:
                links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.link))
            elif member.kind is Kind.HARD_LINK:
                links[name] = posixpath.normpath(member.link.lstrip("/"))
            if len(self._places) + len(links) > _MOST_MEMBERS:
                break  # no archive of images has as many: it is a root file system
        for name, target in links.items():  # old versions of Docker name a layer that occurs twice so
            if target in self._places:
                self._places.setdefault(name, self._places[target])

    def images(self) -> list[ImageContents] | None:
        """The images in it for this machine; None if it is no archive of images."""
        if _OCI in self._places and _OCI_INDEX in self._places:
            return list(self._oci())
        if _DOCKER in self._places:
            return list(self._docker())
        return None

    def _oci(self) -> Iterator[ImageContents]:
        document = self._document(_OCI_INDEX)
        index = decode(document, Index, _OCI_INDEX)
        images: dict[str, ImageContents] = {}
        for entry in self._for_this_machine(self._bounded(index.manifests), digest_of(document)):
            image = self._image(self._manifest(entry), entry)
            known = images.get(image.digest)
            if known is not None:
                tags, digests = [*known.tags, *image.tags], [*known.digests, *image.digests]
                image = ImageContents(image.config, image.layers, tags, digests, image.digest)
            images[image.digest] = image
        yield from images.values()

    def _for_this_machine(self, entries: Sequence[Descriptor], digest: str) -> Sequence[Descriptor]:
        found = [entry for entry in entries if entry.platform is None or runs_here(entry.platform)]
        if not found:
            raise no_match(digest, ", ".join(dict.fromkeys(str(entry.platform) for entry in entries)))
        return found

    def _manifest(self, entry: Descriptor) -> Descriptor:
        for _ in range(_MOST_NESTED):
            if entry.media_type not in INDEX_TYPES:
                return entry
            document = self._blob(entry.digest)
            entry = for_this_machine(decode(document, Index, f"the index {entry.digest}"), entry.digest)
        raise BadImage(f"the archive has indexes within indexes, more than {_MOST_NESTED} deep")

    def _image(self, entry: Descriptor, named: Descriptor) -> ImageContents:
        manifest = decode(self._blob(entry.digest), Manifest, f"the manifest {entry.digest}")
        tags = _tags(named.annotations or {})
        digests = [f"{references.parse(tag).name}@{named.digest}" for tag in tags]
        layers = [LayerSource(self._opener(_blob_name(layer.digest)), layer.digest) for layer in manifest.layers]
        return ImageContents(self._blob(manifest.config.digest), layers, tags, digests, entry.digest)

    def _docker(self) -> Iterator[ImageContents]:
        entries = decode(self._document(_DOCKER), list[DockerArchiveImage], _DOCKER)
        for entry in self._bounded(entries):
            config = self._document(posixpath.normpath(entry.config))
            layers = [LayerSource(self._opener(posixpath.normpath(name))) for name in entry.layers]
            tags = [str(references.parse(tag)) for tag in entry.repo_tags or ()]
            yield ImageContents(config, layers, tags, digest=digest_of(config))

    def _bounded(self, entries: Sequence[T]) -> Sequence[T]:
        if not entries:
            raise BadImage("there is no image in the archive")
        if len(entries) > self._limits.images:
            raise BadImage(f"the archive has {len(entries)} images; at most {self._limits.images} are taken")
        return entries

    def _blob(self, digest: str) -> bytes:
        data = self._document(_blob_name(digest))
        if digest_of(data, digest.partition(":")[0]) != digest:
            raise BadImage(f"{digest} in the archive is damaged: its digest is another")
        return data

    def _document(self, name: str) -> bytes:
        place = self._place(name)
        if place.size > self._limits.document_bytes:
            raise BadImage(f"{name} has {place.size} bytes; at most {self._limits.document_bytes} are taken")
        return Section(self._file, place.offset, place.size).read(place.size)

    def _opener(self, name: str) -> _Opener:
        return _Opener(self._file, self._place(name))

    def _place(self, name: str) -> _Place:
        place = self._places.get(name)
        if place is None:
            raise BadImage(f"the archive is not whole: it has no {name}")
        return place


class _Opener(msgspec.Struct, frozen=True):
    file: BinaryIO
    place: _Place

    @contextmanager
    def __call__(self) -> Iterator[Section]:
        yield Section(self.file, self.place.offset, self.place.size)


@contextmanager
def plain_file(path: Path, temporary: Path, limits: Limits) -> Iterator[BinaryIO]:
    """The file without its compression. Raises BadImage."""
    with path.open("rb") as file:
        packed = Decompressed(file)
        file.seek(0)
        if not packed.is_gzip:
            yield file
            return
        with temporary.open("w+b") as plain:
            _decompress(file, plain, limits)
            plain.seek(0)
            yield plain


def _decompress(source: BinaryIO, target: BinaryIO, limits: Limits) -> None:
    packed = Decompressed(source)
    size = 0
    while piece := packed.read(PIECE):
        size += len(piece)
        if size > limits.unpacked_bytes:
            raise BadImage(f"the archive decompresses to more than {limits.unpacked_bytes} bytes")
        target.write(piece)


def _blob_name(digest: str) -> str:
    if not references.is_digest(digest):
        raise BadImage(f"{digest[:80]!r} in the archive is no digest")
    return f"blobs/{digest.replace(':', '/')}"


def _tags(annotations: Mapping[str, str]) -> list[str]:
    """The name of an image in an index. A bare tag (`v1`) names no repository, so it is no name."""
    for annotation in _NAMES:
        text = annotations.get(annotation, "")
        if "/" in text or ":" in text:
            try:
                return [str(references.parse(text))]
            except InvalidReference:
                continue
    return []
