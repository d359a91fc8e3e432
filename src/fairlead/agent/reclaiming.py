"""What a node frees when it is short of disk, before any pod has to go: logs of pods that have ended (the rest of them
is gone already), and images that no container is made of.

Of a container that is started again and again one earlier run is kept, as a kubelet keeps one; and an image that came
only just now is somebody's who is about to start. Sources: pkg/kubelet/kuberuntime/kuberuntime_gc.go,
pkg/kubelet/images/image_gc_manager.go.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from fairlead.agent.images_seam import InvalidName
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.pods.remnants import remove_logs
from fairlead.agent.pods.worker import PodWorker
from fairlead.api.objects import Obj
from fairlead.node.eviction.reclaim import Reclaim
from fairlead.runtime.clock import monotonic


class _Seen(msgspec.Struct):
    """An image, by when it was noticed first, and used last; on the loop's clock."""

    noticed_at: float
    used_at: float


class Reclaimer:
    def __init__(self, place: Place, worker: PodWorker) -> None:
        self._place, self._worker = place, worker
        self._least_age = place.configured.configuration.image_minimum_gc_age
        self._seen: dict[str, _Seen] | None = None  # by id of an image

    async def notice(self) -> None:
        """Look which images are there; of those that are there at the start nobody knows since when."""
        there = await asyncio.to_thread(self._place.images.ids)
        moment, known, used = monotonic(), self._seen or {}, self._used()
        noticed_at = moment if self._seen is not None else -math.inf
        self._seen = {id_: known.get(id_) or _Seen(noticed_at, moment) for id_ in there}
        for id_ in used & self._seen.keys():
            self._seen[id_].used_at = moment

    async def reclaim(self, wanted: Iterable[Reclaim]) -> None:
        for each in wanted:
            if each is Reclaim.DELETE_UNUSED_CONTAINERS:
                await asyncio.to_thread(self._remove_logs, self._ended())
            else:
                await self.notice()
                for id_, seen in self._unused():
                    if monotonic() - seen.noticed_at >= self._least_age:
                        await self._place.images.remove(id_)

    def _ended(self) -> set[str]:
        """The uids of those pods that have logs and nothing else."""
        folders = (self._place.root / "logs").glob("*_*_*")
        living = {real.pod.metadata.uid for real in self._living()}
        return {folder.name.rpartition("_")[2] for folder in folders} - living - self._worker.admitted_uids

    def _remove_logs(self, uids: Iterable[str]) -> None:
        for uid in uids:
            remove_logs(self._place, uid)

    async def remove_images(self, may_go: Callable[[float], bool]) -> None:
        """Those that nothing uses, as far as they may go; it is asked since when they are unused."""
        await self.notice()
        for id_, seen in self._unused():
            if may_go(seen.used_at):
                await self._place.images.remove(id_)

    async def forget_pulls(self) -> None:
        """Of images that are not here any more."""
        listed = await asyncio.to_thread(self._place.images.listed)
        self._place.pulls.forget([image.id for image in listed])

    async def free(self, wanted: int) -> int:
        """So many bytes, the longest unused images first; returns how many came of it."""
        await self.notice()
        before = await self._image_bytes()
        for id_, seen in self._unused():
            if before - await self._image_bytes() >= wanted:
                break
            if monotonic() - seen.noticed_at >= self._least_age:
                await self._place.images.remove(id_)
        return max(before - await self._image_bytes(), 0)

    async def _image_bytes(self) -> int:
        return (await asyncio.to_thread(self._place.images.disk_usage)).used or 0

    def _unused(self) -> list[tuple[str, _Seen]]:
        """The longest unused first."""
        used = self._used()
        unused = [(id_, seen) for id_, seen in (self._seen or {}).items() if id_ not in used]
        return sorted(unused, key=lambda entry: (entry[1].used_at, entry[1].noticed_at))

    def _used(self) -> set[str]:
        return {status.image_id for status in self._place.runtime.containers()} | self._named()

    def _living(self) -> Iterator[RealPod]:
        return (real for real in self._worker.real_pods if not real.is_finished)

    def _volumes(self) -> Iterator[Obj]:
        for real in self._living():
            yield from real.manifest["spec"].get("volumes") or ()

    def _named(self) -> set[str]:
        """The ids of the images of pods that are not over: a container may just be made of one."""
        pods = [real.pod for real in self._living()]
        names = {each.image for pod in pods for each in (*pod.spec.init_containers, *pod.spec.containers)}
        names |= {each.image for pod in pods for each in pod.spec.ephemeral_containers}
        names |= {volume["image"]["reference"] for volume in self._volumes() if volume.get("image")}
        found = set()
        for name in names:
            with suppress(InvalidName):
                if (image := self._place.images.find(name)) is not None:
                    found.add(image.id)
        return found
