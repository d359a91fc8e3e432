"""What is predicted of workloads whose course can be worked out by hand; nothing runs."""

from __future__ import annotations

from pathlib import Path

from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.node.stats.measurements import FilesystemMeasurements
from fairlead.verify.nested import Nested
from fairlead.verify.prediction import predict
from fairlead.verify.workload import workload

_DISK = 512 << 20


def predicted(usage: dict[str, str], limits: dict[str, str], seconds: int = 30) -> list[tuple[str, float]]:
    """What happens to one container on cgroup v1, and when."""
    annotations = {f"sim.fairlead.dev/usage-{measure}": text for measure, text in usage.items()}
    found = workload(
        [
            {
                "apiVersion": "verify.fairlead.dev/v1alpha1",
                "kind": "Workload",
                "metadata": {"name": "w"},
                "memory": "500Mi",
                "seconds": seconds,
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]},
            },
        ],
        "w",
    )
    disk = FilesystemMeasurements(_DISK, _DISK, 0, 1 << 15, 1 << 15, 0)
    machine = Nested(Path("/"), "/", Cgroups(Hierarchies(1, {})), found.size, disk, 0)
    return [(it.kind, it.at) for it in predict(found, machine, seconds).course.happenings]


def test_children_are_lost_when_the_limit_is_reached_and_not_at_the_next_look_of_the_node() -> None:
    """After 11.25 s; the node looks after 6.3 and 16.3, and it is told within a second."""
    ((kind, at),) = predicted({"memory": "10Mi", "child-memory": "leak(8Mi/s)"}, {"memory": "100Mi"})
    assert kind == "lost children"
    assert 11 <= at <= 12.5
