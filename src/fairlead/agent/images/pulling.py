"""One pull: from the name of an image to its manifest for this machine, and its blobs in files, all verified.

A connection that breaks is taken up again where it broke. The texts are containerd's, which users find in events of
pods.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from fairlead.agent.images.contents import ImageContents, LayerSource
from fairlead.agent.images.credentials import Credential
from fairlead.agent.images.errors import BadImage, NoPlatform, PullFailed
from fairlead.agent.images.limits import MIB, Limits
from fairlead.agent.images.manifests import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    Index,
    Manifest,
    decode,
    for_this_machine,
)
from fairlead.agent.images.references import Reference, is_digest
from fairlead.agent.images.registry import Registry
from fairlead.agent.images.streams import digest_of
from fairlead.golang.quoting import go_quote

_ACCEPT: Final = ", ".join((*MANIFEST_TYPES, *INDEX_TYPES, "*/*"))
_AT_ONCE: Final = 3
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0
_MOST_NESTED: Final = 3


class _Kind(msgspec.Struct, rename="camel"):
    """What tells an index from a manifest, whatever the registry says of its type."""

    schema_version: int = 2
    manifests: Sequence[Descriptor] | None = None


class Pull:
    """Use it with `async with`; within `explained`, every failure is a PullFailed with the whole sentence."""

    def __init__(self, reference: Reference, credential: Credential | None, limits: Limits) -> None:
        self._reference = reference
        self._registry = Registry(reference, credential)
        self._limits = limits
        self._sizes: dict[str, int] = {}

    async def __aenter__(self) -> Pull:
        await self._registry.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._registry.__aexit__()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Begins the message of what goes wrong as containerd does."""
        told = f"failed to pull and unpack image {go_quote(str(self._reference))}: "
        try:
            yield
        except PullFailed as error:
            raise PullFailed(told + str(error), error.code) from None
        except NoPlatform as error:
            raise PullFailed(told + str(error), "NotFound") from None
        except BadImage as error:
            raise PullFailed(told + str(error)) from None

    async def contents(self) -> ImageContents:
        """The image without the data of its layers."""
        top, top_digest = await self._resolved()
        document, digest = top, top_digest
        for _ in range(_MOST_NESTED):
            entry = _entry(document, digest)
            if entry is None:
                break
            document, digest = await self._manifest(entry.digest), entry.digest
        manifest = decode(document, Manifest, f"the manifest {digest}")
        for blob in (manifest.config, *manifest.layers):
            self._check(blob)
        config = await self._blob(manifest.config)
        layers = [LayerSource(_gone, layer.digest) for layer in manifest.layers]
        tags = [] if self._reference.digest else [str(self._reference)]
        digests = dict.fromkeys(f"{self._reference.name}@{found}" for found in (top_digest, digest))
        return ImageContents(config, layers, tags, list(digests), digest)

    async def download(self, wanted: set[str], folder: Path) -> None:
        """Those layers, each into a file of the folder."""
        permits = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for digest in sorted(wanted):
                    group.create_task(self._download(digest, _file_of(digest, folder), permits))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def downloaded(self, contents: ImageContents, folder: Path) -> ImageContents:
        """The image with its layers in those files. One that was not downloaded is in the store already."""
        layers = []
        for layer in contents.layers:
            path = _file_of(layer.digest, folder)
            layers.append(LayerSource(_Opener(path), layer.digest) if path.exists() else layer)
        return ImageContents(contents.config, layers, contents.tags, contents.digests, contents.digest)

    async def _resolved(self) -> tuple[bytes, str]:
        """What the name stands for now, and its digest."""
        try:
            document = await self._manifest(self._reference.object)
        except PullFailed as error:
            told = f"{self._reference}: {error}" if error.code == "NotFound" else str(error)
            why = f"failed to resolve reference {go_quote(str(self._reference))}: {told}"
            raise PullFailed(why, error.code) from None
        return document, self._reference.digest or digest_of(document)

    async def _manifest(self, name: str) -> bytes:
        document, headers = await self._registry.document(f"manifests/{name}", self._limits.document_bytes, _ACCEPT)
        stated = name if is_digest(name) else headers.get("Docker-Content-Digest", "")
        if is_digest(stated):
            _verify(document, stated)
        return document

    async def _blob(self, blob: Descriptor) -> bytes:
        try:
            data, _ = await self._registry.document(f"blobs/{blob.digest}", self._limits.document_bytes)
        except PullFailed as error:
            raise PullFailed(f"failed to copy: {blob.digest}: {error}", error.code) from None
        _verify(data, blob.digest)
        return data

    def _check(self, blob: Descriptor) -> None:
        if not is_digest(blob.digest):
            raise BadImage(f"the manifest has {blob.digest[:80]!r} for a digest")
        if not 0 <= blob.size <= self._limits.unpacked_bytes:
            raise BadImage(f"{blob.digest} has {blob.size} bytes; at most {self._limits.unpacked_bytes} are taken")
        if blob.media_type.endswith("zstd"):
            raise BadImage(f"{blob.digest} is compressed with zstd, which is not understood here: only gzip is")
        self._sizes[blob.digest] = blob.size

    async def _download(self, digest: str, path: Path, permits: asyncio.Semaphore) -> None:
        async with permits:
            with path.open("wb") as file:
                download = _Download(self._registry, digest, self._sizes[digest], file)
                try:
                    await download.run()
                except PullFailed as error:
                    raise PullFailed(f"failed to copy: {digest}: {error}", error.code) from None


class _Download:
    """One blob on its way into a file."""

    def __init__(self, registry: Registry, digest: str, size: int, file: BinaryIO) -> None:
        self._registry = registry
        self._digest = digest
        self._size = size
        self._file = file
        self._hash = hashlib.new(digest.partition(":")[0])
        self._at = 0

    async def run(self) -> None:
        for left in reversed(range(_TRIES)):
            before = self._at
            try:
                await self._attempt()
                break
            except PullFailed as error:
                if not left or (self._at == before and error.code == "NotFound") or not self._at:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        if self._at != self._size:
            raise PullFailed(f"unexpected EOF: it has {self._at} bytes, the manifest says {self._size}")
        found = f"{self._digest.partition(':')[0]}:{self._hash.hexdigest()}"
        if found != self._digest:
            raise PullFailed(f"unexpected commit digest {found}, expected {self._digest}: failed precondition")

    async def _attempt(self) -> None:
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        async with self._registry.opened(f"blobs/{self._digest}", headers) as response:
            if self._at and response.status != 206:
                self._restart()
            async for piece in response.content.iter_chunked(MIB):
                if self._at + len(piece) > self._size:
                    raise BadImage(f"{self._digest} has more than the {self._size} bytes of which the manifest speaks")
                await asyncio.to_thread(self._keep, piece)

    def _keep(self, piece: bytes) -> None:
        self._hash.update(piece)
        self._file.write(piece)
        self._at += len(piece)

    def _restart(self) -> None:
        """The registry begins anew: it does not know of ranges."""
        self._hash = hashlib.new(self._digest.partition(":")[0])
        self._file.seek(0)
        self._file.truncate()
        self._at = 0


class _Opener:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> AbstractContextManager[BinaryIO]:
        return self._path.open("rb")


def _gone() -> AbstractContextManager[BinaryIO]:
    raise BadImage("a layer was removed from the store meanwhile: pull the image again")


def _entry(document: bytes, digest: str) -> Descriptor | None:
    """The manifest for this machine, if the document is an index."""
    kind = decode(document, _Kind, f"the manifest {digest}")
    if kind.schema_version == 1:
        raise BadImage(
            f"the manifest {digest} is of Docker's schema 1, which nobody takes any more: push the image again"
        )
    if kind.manifests is None:
        return None
    return for_this_machine(Index(kind.manifests), digest)


def _verify(data: bytes, digest: str) -> None:
    found = digest_of(data, digest.partition(":")[0])
    if found != digest:
        raise BadImage(f"unexpected commit digest {found}, expected {digest}: failed precondition")


def _file_of(digest: str, folder: Path) -> Path:
    return folder / digest.replace(":", "-")
