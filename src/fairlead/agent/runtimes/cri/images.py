"""The images of a runtime, as pods need them.

What is there is looked at every few seconds and remembered: the decisions about pods ask without waiting. What an image
says of its containers stands in the runtime's verbose answers alone, in a form that containerd and CRI-O share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.images.credentials import keyring
from fairlead.agent.images.errors import InvalidReference
from fairlead.agent.images.references import image_id, parse
from fairlead.agent.images_seam import InvalidName, PullFailure
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.client import CallFailed, Client
from fairlead.agent.runtimes.cri.configuration import configuration
from fairlead.node.eviction.candidates import DiskUsage

#: A kubelet waits for a pull as long as something comes; so does the runtime, which ends what is stuck.
_PULL_SECONDS: Final = None


class ImageConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """`images_seam.ImageConfig`, as the OCI image specification spells it."""

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


class _ImageSpec(msgspec.Struct):
    config: ImageConfig = ImageConfig()


class _Info(msgspec.Struct, rename="camel"):
    image_spec: _ImageSpec = msgspec.field(default_factory=_ImageSpec)


class CriImage(msgspec.Struct, frozen=True):
    id: str
    size_bytes: int
    config: ImageConfig
    #: The runtime has them.
    layers: Sequence[Path] = ()


class CriImages:
    """`Images` of a runtime."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._by_id: dict[str, CriImage] = {}
        self._names: dict[str, str] = {}  # in full, with tag or digest: the id
        self._kept: set[str] = set()  # ids of those that the runtime needs or wants to keep
        self._usage = DiskUsage(0, 0)
        self._turn = asyncio.Lock()

    async def look(self) -> None:
        """See what is there now; RuntimeFailure if nobody says."""
        async with self._turn:
            found = (await self._client.call(cri.LIST_IMAGES, cri.Nothing())).images
            by_id = {each.id: self._by_id.get(each.id) or await self._known(each) for each in found}
            self._by_id = {id_: image for id_, image in by_id.items() if image is not None}
            self._names = {name: each.id for each in found for name in (*each.repo_tags, *each.repo_digests)}
            needed = (await configuration(self._client)).sandbox_image  # containerd 1.6 does not pin it
            self._kept = {each.id for each in found if each.pinned or needed in each.repo_tags}
            usages = (await self._client.call(cri.IMAGE_FS, cri.Nothing())).image_filesystems
            self._usage = DiskUsage(
                sum(usage.used_bytes.value for usage in usages), sum(usage.inodes_used.value for usage in usages)
            )

    def find(self, reference: str) -> CriImage | None:
        id_ = image_id(reference)
        if id_ is not None:
            return self._by_id.get(id_)
        return self._by_id.get(self._names.get(_in_full(reference), ""))

    async def pull(self, reference: str, secrets: Sequence[Mapping[str, bytes]]) -> CriImage:
        try:
            wanted = parse(reference)
            current = [data[".dockerconfigjson"] for data in secrets if ".dockerconfigjson" in data]
            legacy = [data[".dockercfg"] for data in secrets if ".dockercfg" in data]
            credentials = keyring(current, legacy).lookup(wanted)
        except (InvalidReference, ValueError) as error:
            raise PullFailure(str(error)) from None
        auths: list[cri.AuthConfig | None] = [
            cri.AuthConfig(username=each.username, password=each.password) for each in credentials
        ]
        failure: RuntimeFailure | None = None
        for auth in auths or [None]:
            asked = cri.PullImageRequest(image=cri.ImageSpec(image=str(wanted)), auth=auth)
            try:
                await self._client.call(cri.PULL, asked, _PULL_SECONDS)
                await self.look()
            except RuntimeFailure as error:
                failure = error
                continue
            if (found := self.find(reference)) is not None:
                return found
            failure = RuntimeFailure(f"image {wanted} was pulled and is not there")
        if isinstance(failure, CallFailed):
            raise PullFailure.of_call(failure.code, failure.message)
        raise PullFailure(str(failure))

    def disk_usage(self) -> DiskUsage:
        return self._usage

    def ids(self) -> Sequence[str]:
        return [id_ for id_ in self._by_id if id_ not in self._kept]

    async def remove(self, id_: str) -> None:
        try:
            with suppress(CallFailed):
                await self._client.call(cri.REMOVE_IMAGE, cri.RemoveImageRequest(image=cri.ImageSpec(image=id_)))
            await self.look()
        except RuntimeFailure as error:
            raise OSError(str(error)) from None

    async def _known(self, image: cri.Image) -> CriImage | None:
        """None if it has just gone, or if the runtime does not tell what is in it."""
        asked = cri.ImageStatusRequest(image=cri.ImageSpec(image=image.id), verbose=True)
        info = (await self._client.call(cri.IMAGE_STATUS, asked)).info.get("info", "")
        try:
            config = msgspec.json.decode(info, type=_Info).image_spec.config
        except msgspec.DecodeError:
            return None
        return CriImage(image.id, image.size, config)


def _in_full(reference: str) -> str:
    try:
        return str(parse(reference))
    except InvalidReference as error:
        raise InvalidName(str(error)) from None
