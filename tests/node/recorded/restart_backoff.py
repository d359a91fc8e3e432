"""Whether and when a container runs again, as the real kubelet decided it."""

from __future__ import annotations

from fairlead.api.encoded import encoded
from fairlead.api.pods import Pod
from fairlead.golang.durations import format_seconds, parse_seconds
from fairlead.node.restarts import (
    BACK_OFF,
    CRASH_LOOP,
    BackOff,
    back_off_event,
    crash_loop_message,
    first_try,
    init_runs_again,
    runs_again,
)
from tests.node.golden import Row, expected, rows
from tests.node.restarts import container_of


@rows("restart_backoff")
def test_containers_restart_as_recorded(row: Row) -> None:
    """S0-64."""
    assert restarts(row) in expected(row)


def restarts(row: Row) -> Row:
    """What our functions say to the runs of a row, in its own form."""
    pod, name = encoded(row["pod"]).view(Pod), container_of(row)
    longest = parse_seconds(row["config"].get("crashLoopBackOff", {}).get("maxContainerRestartPeriod", "5m"))
    is_init = any(container.name == name for container in pod.spec.init_containers)
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    container = next(container for container in containers if container.name == name)
    back_off: BackOff | None = None
    began = 0.0
    runs: list[Row] = []
    events: list[Row] = []
    for run in row["runs"]:
        ended = began + parse_seconds(run["for"])
        times = {"startedAt": format_seconds(began), "exitedAt": format_seconds(ended)}
        found: Row = {"exitCode": run["exitCode"], **times}
        runs.append(found)
        if not (init_runs_again if is_init else runs_again)(container, pod.spec.restart_policy, run["exitCode"]):
            found["restartedAt"] = "never"
            break
        began = ended if back_off is None else back_off.allowed_at(ended)
        back_off = first_try(began, longest) if back_off is None else back_off.tried(ended, began)
        found |= {"restartedAt": format_seconds(began), "waited": format_seconds(began - ended)}
        if began > ended:
            found |= {"waitingReason": CRASH_LOOP, "waitingMessage": crash_loop_message(began - ended, name, pod)}
            event = _event(pod, f"spec.{'initContainers' if is_init else 'containers'}{{{name}}}")
            events += [] if event in events else [event]
    return {"restarts": runs, "events": events}


def _event(pod: Pod, path: str) -> Row:
    name = path.partition("{")[2].rstrip("}")
    about = {"object": f"pod/{pod.metadata.name}", "fieldPath": path}
    return about | {"type": "Warning", "reason": BACK_OFF, "message": back_off_event(name, pod)}
