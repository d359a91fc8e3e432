"""The images of a runtime, as pods need them.

What is there is looked at every few seconds and remembered: the decisions about pods ask without waiting. What an image
says of its containers stands in the runtime's verbose answers alone, in a form that containerd and CRI-O share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.images.credentials import Credential
from fairlead.agent.images.errors import InvalidReference
from fairlead.agent.images.references import image_id, parse
from fairlead.agent.images_seam import InvalidName, ListedImage, PullFailure
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri import messages as cri
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
        self._listed: Sequence[ListedImage] = ()
        self._kept: set[str] = set()  # ids of those that the runtime needs or wants to keep
        self._usage = DiskUsage(0, 0)
        self._turn = asyncio.Lock()

    async def look(self) -> None:
        """See what is there now; RuntimeFailure if nobody says."""
        async with self._turn:
            found = (await self._client.call(cri.LIST_IMAGES, Nothing())).images
            by_id = {each.id: self._by_id.get(each.id) or await self._known(each) for each in found}
            self._by_id = {id_: image for id_, image in by_id.items() if image is not None}
            self._names = {name: each.id for each in found for name in (*each.repo_tags, *each.repo_digests)}
            self._listed = [ListedImage(each.id, [*each.repo_digests, *each.repo_tags], each.size) for each in found]
            needed = (await configuration(self._client)).sandbox_image  # containerd 1.6 does not pin it
            self._kept = {each.id for each in found if each.pinned or needed in each.repo_tags}
            usages = (await self._client.call(cri.IMAGE_FS, Nothing())).image_filesystems
            self._usage = DiskUsage(
                sum(usage.used_bytes.value for usage in usages), sum(usage.inodes_used.value for usage in usages)
            )

    def find(self, reference: str) -> CriImage | None:
        id_ = image_id(reference)
        if id_ is not None:
            return self._by_id.get(id_)
        return self._by_id.get(self._names.get(_in_full(reference), ""))

    def source_of(self, reference: str) -> str:
        return reference

    async def pull(self, reference: str, credential: Credential | None) -> CriImage:
        auth = None
        if credential is not None:
            auth = cri.AuthConfig(username=credential.username, password=credential.password)
        try:
            wanted = parse(reference)
            asked = cri.PullImageRequest(image=cri.ImageSpec(image=str(wanted)), auth=auth)
            await self._client.call(cri.PULL, asked, _PULL_SECONDS)
            await self.look()
        except CallFailed as refused:
            raise PullFailure.of_call(refused.code, refused.message) from None
        except (InvalidReference, RuntimeFailure) as error:
            raise PullFailure(str(error)) from None
        if (found := self.find(reference)) is None:
            raise PullFailure(f"image {wanted} was pulled and is not there")
        return found

    def disk_usage(self) -> DiskUsage:
        return self._usage

    def ids(self) -> Sequence[str]:
        return [id_ for id_ in self._by_id if id_ not in self._kept]

    def listed(self) -> Sequence[ListedImage]:
        return self._listed

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
