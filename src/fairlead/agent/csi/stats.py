"""How full volumes of drivers are, as these say: asked now and then, for who shows it does not wait.

A driver that hangs holds up nobody but itself. Source: pkg/volume/csi/csi_metrics.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fairlead.agent.csi.drivers import CALL_SECONDS, CsiDrivers
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.node.stats.measurements import FilesystemMeasurements

if TYPE_CHECKING:
    from fairlead.agent.csi.messages import Stats

log = logging.getLogger(__name__)


class Measurable(NamedTuple):
    """A volume that a pod has, by its name there."""

    uid: str
    name: str
    driver: str
    handle: str
    path: Path
    staged: str


#: By driver, uid of the pod, and name of the volume.
VolumeStats: TypeAlias = Mapping[str, Mapping[str, Mapping[str, FilesystemMeasurements]]]


class CsiStats:
    """`volumes` are those that are mounted now."""

    def __init__(self, drivers: CsiDrivers, volumes: Callable[[], Iterable[Measurable]]) -> None:
        self._drivers, self._volumes = drivers, volumes
        self._busy: set[str] = set()  # drivers that are being asked
        #: What was said last.
        self.last: VolumeStats = {}

    async def run(self, seconds: float) -> None:
        """Ask so often, until cancelled; never, if that is negative."""
        async with asyncio.TaskGroup() as asking:
            while seconds >= 0:
                by_driver = defaultdict[str, list[Measurable]](list)
                for volume in self._volumes():
                    by_driver[volume.driver].append(volume)
                self.last = {name: said for name, said in self.last.items() if name in by_driver}
                for name in by_driver.keys() - self._busy:
                    self._busy.add(name)
                    asking.create_task(self._ask(name, by_driver[name]), name=f"volumes of {name}")
                await asyncio.sleep(max(seconds, 1.0))

    async def _ask(self, name: str, volumes: Sequence[Measurable]) -> None:
        from fairlead.agent.csi.messages import GET_STATS, GET_VOLUME_STATS, StatsRequest

        found = defaultdict[str, dict[str, FilesystemMeasurements]](dict)
        for volume in volumes:
            driver = self._drivers.get(name)
            if driver is None or GET_STATS not in driver.capabilities:
                break
            request = StatsRequest(
                volume_id=volume.handle, volume_path=str(volume.path), staging_target_path=volume.staged
            )
            try:
                said = await driver.client.call(GET_VOLUME_STATS, request, CALL_SECONDS)
            except RuntimeFailure as failure:
                log.info("how full volume %s is cannot be found out: %s", volume.handle, failure)
            else:
                if (measured := _measured(said)) is not None:
                    found[volume.uid][volume.name] = measured
        self.last = {**self.last, name: dict(found)}
        self._busy.discard(name)


def _measured(said: Stats) -> FilesystemMeasurements | None:
    from fairlead.agent.csi.messages import BYTES, INODES

    usage = {each.unit: each for each in said.usage}
    if (size := usage.get(BYTES)) is None:
        return None
    inodes = usage.get(INODES)
    of_inodes = (inodes.total, inodes.available, inodes.used) if inodes is not None else ()
    return FilesystemMeasurements(size.total, size.available, size.used, *of_inodes)
