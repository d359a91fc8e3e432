"""The image store as pods need it: their pull secrets become credentials, and its errors those that a pod shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.agent.images.credentials import keyring
from fairlead.agent.images.errors import ImageError, InvalidReference, PullFailed
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
            raise PullFailure(f"rpc error: code = {error.code} desc = {error}") from None
        except (ImageError, OSError, ValueError) as error:
            raise PullFailure(str(error)) from None

    def disk_usage(self) -> DiskUsage:
        found = self._store.disk_usage()
        return DiskUsage(found.bytes, found.inodes)
