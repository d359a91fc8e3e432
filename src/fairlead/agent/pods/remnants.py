"""What there still is of pods when nobody looks after them any more, and how it is removed.

A runtime that is restarted finishes what it had begun, what is killed takes a moment to end, and an agent may be killed
between any two steps: so it is looked for at the start, and all the time after that, as a kubelet does
(HandlePodCleanups of pkg/kubelet/kubelet_pods.go).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent.csi.volumes import PUBLISHED
from fairlead.agent.network_seam import NetworkFailed
from fairlead.agent.pods.node_pods import NodePods
from fairlead.agent.pods.place import PODS, Place
from fairlead.agent.runtimes.base import RuntimeFailure, Sandbox
from fairlead.agent.trees import remove_tree
from fairlead.agent.volumes.pod_volumes import PodVolumes
from fairlead.api.pods import FINISHED

#: How often sandboxes and cgroups are looked for that belong to no pod any more.
SWEEP_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class RemnantCollector:
    """`holds` says of a uid whether somebody looks after what there is of that pod, also when it has ended."""

    def __init__(self, place: Place, pods: NodePods, holds: Callable[[str], bool]) -> None:
        self._place, self._pods, self._holds = place, pods, holds

    async def collect(self) -> None:
        """At the start: all that belongs to no pod any more, however far it had come when the last agent ended."""
        place = self._place
        found = await asyncio.to_thread(_Found.of, place)  # before it is asked who runs: static pods may come meanwhile
        await self._tear_down(place.runtime.sandboxes())
        await self._unmount()
        left = {sandbox.uid for sandbox in place.runtime.sandboxes()}
        await place.network.collect(left)
        running = left | {uid for uid in found.folders.keys() | found.cgroups.keys() if not self._is_stray(uid)}
        there = {pod.metadata.uid for pod in self._pods}
        await asyncio.to_thread(found.remove, place, running, there)

    async def sweep(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(RuntimeFailure):  # the runtime is down, which the node's condition tells
                await self._tear_down(await self._place.runtime.all_sandboxes())
            await self._unmount()
            cgroups = await asyncio.to_thread(_cgroups, self._place)
            for uid in self._strays(cgroups):
                if self._is_stray(uid):
                    await asyncio.to_thread(_remove_cgroup, self._place, cgroups[uid])

    async def _tear_down(self, sandboxes: Iterable[Sandbox]) -> None:
        """Those of no pod; what is refused is tried again with the next sweep."""
        by_uid = {sandbox.uid: sandbox for sandbox in sandboxes}
        for uid in self._strays(by_uid):
            if self._is_stray(uid):
                try:
                    await tear_down(self._place, uid, by_uid[uid].cgroup)
                except (RuntimeFailure, OSError) as failure:
                    log.warning("pod %s has gone, and cannot be torn down yet: %s", uid, failure)

    async def _unmount(self) -> None:
        """Volumes of drivers of pods of which nothing else is left: a driver may have been away when they ended."""
        for folder in self._place.claims.csi.folders():
            if self._is_stray(folder.name):
                try:
                    await self._place.claims.csi.unmount(folder)
                except OSError as failure:
                    log.warning("pod %s has gone: %s", folder.name, failure)
                else:
                    await asyncio.to_thread(PodVolumes(folder, 0).tear_down)
        try:
            await self._place.claims.csi.unstage_rest()
        except OSError as failure:
            log.warning("pods have gone: %s", failure)

    def _strays(self, uids: Iterable[str]) -> set[str]:
        return set(uids) - {pod.metadata.uid for pod in self._pods if pod.status.phase not in FINISHED}

    def _is_stray(self, uid: str) -> bool:
        """Asked anew right before it goes: a static pod comes back with the uid that it had."""
        return not self._holds(uid) and bool(self._strays([uid]))


async def tear_down(place: Place, uid: str, cgroup: str) -> None:
    """Remove all that there is of a pod but its logs. RuntimeFailure, or OSError while volumes are mounted: it may be
    tried again.
    """
    await place.runtime.remove_sandbox(uid)
    with suppress(NetworkFailed):  # what could not be taken back is collected later
        await place.network.detach(uid)
    await place.claims.csi.unmount(place.folder(uid))
    await asyncio.to_thread(PodVolumes(place.folder(uid), 0).tear_down)
    place.claims.release(uid)
    await asyncio.to_thread(_remove_cgroup, place, cgroup)


def remove_logs(place: Place, uid: str) -> None:
    for folder in place.log_folders(uid):
        remove_tree(folder, ignore_errors=True)


class _Found(NamedTuple):
    """What there is of pods on the disk and in cgroups, by uid: of some of them nothing else is left."""

    folders: Mapping[str, Path]
    cgroups: Mapping[str, str]
    logs: Collection[str]

    @classmethod
    def of(cls, place: Place) -> _Found:
        folders = {folder.name: folder for folder in (place.root / PODS).glob("*")}
        logs = {log.name.rpartition("_")[2] for log in (place.root / "logs").glob("*_*_*")}
        return cls(folders, _cgroups(place), logs)

    def remove(self, place: Place, running: Collection[str], there: Collection[str]) -> None:
        """Folders and cgroups of pods that do not run, and logs of pods that are not there."""
        for uid, folder in self.folders.items():
            if uid not in running and not (folder / PUBLISHED).exists():
                PodVolumes(folder, 0).tear_down()
        for uid, cgroup in self.cgroups.items():
            if uid not in running:
                _remove_cgroup(place, cgroup)
        for uid in self.logs:
            if uid not in there:
                remove_logs(place, uid)


def _cgroups(place: Place) -> dict[str, str]:
    """Those of pods, by uid."""
    return {cgroup.rpartition("/pod")[2]: cgroup for cgroup in place.pod_cgroups()}


def _remove_cgroup(place: Place, cgroup: str) -> None:
    if not place.cgroups.remove(cgroup):
        place.cgroups.kill(cgroup)
        place.cgroups.remove(cgroup)
