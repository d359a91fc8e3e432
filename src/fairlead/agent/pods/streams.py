"""`PodStreams` of the pods that run here: what `kubectl logs`, `exec`, `attach` and `port-forward` reach."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.kubelet_api.pod_streams import ProcessStreams
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.probe_metrics import families
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.pods.worker import PodWorker
from fairlead.agent.runtimes.base import ContainerStatus, State
from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.metrics import GAUGE, Computed, Family
from fairlead.runtime.streaming.remote_command import Wanted

_DESIRED: Final = (
    "[ALPHA] The number of pods the kubelet is being instructed to run. "
    "static is true if the pod is not from the apiserver."
)


class RealPodStreams:
    """Containers go by the IDs in statuses: NAME://ID."""

    def __init__(
        self,
        worker: PodWorker,
        place: Place,
        configuration: Obj,
        measured: Callable[[], NodeMeasurements | None],
        evictions: Mapping[str, int],
        families: Iterable[Family] = (),
    ) -> None:
        """`measured` has what was measured last; `evictions` are counted by signal, and more in `families`."""
        self._worker, self._place, self._configuration = worker, place, configuration
        self._measured, self._evictions, self._families = measured, evictions, families

    def pods(self) -> Iterable[Encoded]:
        return [encoded(real.manifest) for real in self._worker.real_pods]

    def pod(self, namespace: str, name: str) -> Encoded | None:
        found = self._find(namespace, name)
        return None if found is None else encoded(found.manifest)

    def log_path(self, container_id: str) -> Path | None:
        for real in self._worker.real_pods:
            for name, attempt, id_ in _runs(real.manifest):
                if id_ == container_id:
                    meta = real.pod.metadata
                    path = self._place.log_folder(meta.namespace, meta.name, meta.uid) / name / f"{attempt}.log"
                    return path if path.exists() else None
        return None

    def is_running(self, container_id: str) -> bool:
        status = self._status(container_id)
        return status is not None and status.state is State.RUNNING

    async def exec(self, container_id: str, command: Sequence[str], wanted: Wanted) -> ProcessStreams:
        status = self._running(container_id)
        return await self._place.runtime.exec(status.id, command, wanted)

    async def attach(self, container_id: str, wanted: Wanted) -> ProcessStreams:
        status = self._running(container_id)
        return await self._place.runtime.attach(status.id, wanted)

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        real = self._worker.real_pod(pod_uid)
        if real is None or real.sandbox is None:
            raise OSError("the pod does not run here")
        sock = linux.socket_in(real.sandbox.netns, socket.AF_INET, socket.SOCK_STREAM, 0)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            return await asyncio.open_connection(sock=sock)
        except BaseException:
            sock.close()
            raise

    async def measure(self) -> NodeMeasurements | None:
        return self._measured()

    def evictions(self) -> Mapping[str, int]:
        return self._evictions

    def metrics(self) -> Iterable[Family]:
        place = self._place
        counted = (
            place.metrics.families,
            place.devices.families,
            place.device_plugins.families,
            place.topology.families,
            self._families,
        )
        return *(family for families in counted for family in families), self._desired()

    def _desired(self) -> Family:
        counts = Counter(str(self._worker.is_static(real)).lower() for real in self._worker.real_pods)
        read = [((is_static,), float(counts[is_static])) for is_static in ("false", "true")]
        return Computed(GAUGE, "kubelet_desired_pods", _DESIRED, ("static",), lambda: read)

    def probe_metrics(self) -> Iterable[Family]:
        return families((real.pod.metadata, real.probe_answers) for real in self._worker.real_pods)

    def configuration(self) -> Obj:
        return self._configuration

    def _find(self, namespace: str, name: str) -> RealPod | None:
        key = f"{namespace}/{name}"
        return next((real for real in self._worker.real_pods if real.pod.metadata.key == key), None)

    def _status(self, container_id: str) -> ContainerStatus | None:
        return self._place.runtime.status(container_id.rpartition("/")[2])

    def _running(self, container_id: str) -> ContainerStatus:
        status = self._status(container_id)
        if status is None or status.state is not State.RUNNING:
            raise OSError(f"container {container_id} does not run")
        return status


def _runs(manifest: Obj) -> Iterable[tuple[str, int, str]]:
    """The runs of a pod's containers that its status tells of: name, attempt and ID."""
    status = manifest.get("status") or {}
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    for each in (entry for kind in kinds for entry in status.get(kind) or ()):
        attempt = each.get("restartCount", 0)
        last = (each.get("lastState") or {}).get("terminated") or {}
        if each.get("containerID"):
            yield each["name"], attempt, each["containerID"]
        if last.get("containerID"):  # while it waits to be started again both are the same, and the first is found
            yield each["name"], attempt - 1, last["containerID"]
