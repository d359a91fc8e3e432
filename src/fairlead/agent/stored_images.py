"""The image store as pods need it: its errors become those that a pod shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from fairlead.agent.images.credentials import Credential, Keyring
from fairlead.agent.images.errors import ImageError, InUse, InvalidReference, NotStored, PullFailed
from fairlead.agent.images.image import Image
from fairlead.agent.images.references import parse
from fairlead.agent.images.store import ImageStore
from fairlead.agent.images_seam import InvalidName, ListedImage, PullFailure
from fairlead.node.eviction.candidates import DiskUsage


class StoredImages:
    def __init__(self, store: ImageStore) -> None:
        self._store = store

    def find(self, reference: str) -> Image | None:
        try:
            return self._store.find(reference)
        except InvalidReference as error:
            raise InvalidName(str(error)) from None

    def source_of(self, reference: str) -> str:
        return self._store.aliases().get(str(parse(reference)), reference)

    async def pull(self, reference: str, credential: Credential | None) -> Image:
        try:
            ring = Keyring([(parse(self.source_of(reference)).name, credential)] if credential is not None else [])
            return await self._store.pull(reference, ring)
        except PullFailed as error:
            raise PullFailure.of_call(error.code, str(error)) from None
        except (ImageError, OSError, ValueError) as error:
            raise PullFailure(str(error)) from None

    def disk_usage(self) -> DiskUsage:
        with _readable():
            found = self._store.disk_usage()
        return DiskUsage(found.bytes, found.inodes)

    def ids(self) -> Sequence[str]:
        with _readable():
            return [image.id for image in self._store.list()]

    def listed(self) -> Sequence[ListedImage]:
        with _readable():
            return [
                ListedImage(image.id, [*image.digests, *image.tags], image.size_bytes) for image in self._store.list()
            ]

    async def remove(self, id_: str) -> None:
        with _readable(), suppress(InUse, NotStored):
            await self._store.remove(id_)


@contextmanager
def _readable() -> Iterator[None]:
    """A store that is damaged is to the node as a disk that is."""
    try:
        yield
    except ImageError as error:
        raise OSError(str(error)) from None
