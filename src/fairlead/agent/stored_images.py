"""The image store as pods need it: their pull secrets become credentials, and its errors those that a pod shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from fairlead.agent.images.credentials import keyring
from fairlead.agent.images.errors import ImageError, InUse, InvalidReference, NotStored, PullFailed
from fairlead.agent.images.image import Image
from fairlead.agent.images.store import ImageStore
from fairlead.agent.images_seam import InvalidName, PullFailure
from fairlead.node.eviction.candidates import DiskUsage


class StoredImages:
    def __init__(self, store: ImageStore) -> None:
        self._store = store

    def find(self, reference: str) -> Image | None:
        try:
            return self._store.find(reference)
        except InvalidReference as error:
            raise InvalidName(str(error)) from None

    async def pull(self, reference: str, secrets: Sequence[Mapping[str, bytes]]) -> Image:
        current = [data[".dockerconfigjson"] for data in secrets if ".dockerconfigjson" in data]
        legacy = [data[".dockercfg"] for data in secrets if ".dockercfg" in data]
        try:
            return await self._store.pull(reference, keyring(current, legacy))
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
