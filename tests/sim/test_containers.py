"""What a simulated pod does on its node (sim/containers.py), without a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.encoded import encoded
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.sim.containers import (
    EXIT_CODE,
    LIFETIME_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    Behaviour,
    Place,
    Step,
    step,
)

NOW = 1_767_225_600.0
MOMENT = "2026-01-01T00:00:00Z"
PLACE = Place("172.16.0.1", "10.64.0.1")


def pod(annotations: dict[str, str] | None = None, status: Obj | None = None, **spec: Any) -> Pod:
    obj = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], **spec},
        "status": status or {},
    }
    return encoded(obj).view(Pod)


def running(restarts: int = 0, since: str = MOMENT) -> Obj:
    state = {"running": {"startedAt": since}}
    return {
        "phase": "Running",
        "startTime": since,
        "podIP": "10.64.0.9",
        "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
    }


def look(subject: Pod, *, after: float = 0.0, deleted: float | None = None) -> Step:
    return step(subject, NOW, None if deleted is None else NOW + deleted, PLACE, NOW + after)


def conditions(status: Obj | None) -> dict[str, str]:
    assert status is not None
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_bound_pod_runs_at_once_and_is_ready() -> None:
    status = look(pod()).status
    assert status is not None
    assert (status["phase"], status["podIP"], status["hostIP"]) == ("Running", "10.64.0.1", "172.16.0.1")
    assert conditions(status)["Ready"] == "True"
    assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": MOMENT}}


def test_a_pod_that_starts_slowly_is_looked_at_again_when_it_is_due() -> None:
    slow = pod({START_SECONDS: "5"})
    assert look(slow, after=1) == Step(wake_at=NOW + 5)
    assert look(slow, after=5).status is not None


def test_a_host_network_pod_has_the_address_of_its_node() -> None:
    status = look(pod(hostNetwork=True)).status
    assert status is not None
    assert status["podIP"] == "172.16.0.1"


@pytest.mark.parametrize(("code", "phase", "reason"), [("0", "Succeeded", "Completed"), ("3", "Failed", "Error")])
def test_a_pod_ends_with_its_declared_lifetime(code: str, phase: str, reason: str) -> None:
    mortal = pod({LIFETIME_SECONDS: "60", EXIT_CODE: code}, running(), restartPolicy="Never")
    assert look(mortal, after=59) == Step(wake_at=NOW + 60)
    status = look(mortal, after=60).status
    assert status is not None
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == (phase, int(code), reason)
    assert conditions(status)["Ready"] == "False"


def test_a_restartable_container_restarts_at_once_and_then_backs_off() -> None:
    """S0-64: the first restart is immediate; 10 s, 20 s… start with the second."""
    first = look(pod({LIFETIME_SECONDS: "60"}, running()), after=60).status
    assert first is not None
    assert first["containerStatuses"][0]["restartCount"] == 1
    second = look(pod({LIFETIME_SECONDS: "60"}, running(1)), after=60)
    assert second.status is not None
    waiting = second.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"] == "back-off 10s restarting failed container=c pod=p_ns(u)"
    assert second.wake_at == NOW + 70


def test_a_crashed_container_runs_again_when_its_back_off_is_over() -> None:
    waiting = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 1, "state": {}}]}
    status = look(pod({LIFETIME_SECONDS: "60"}, waiting), after=70).status
    assert status is not None
    assert status["containerStatuses"][0]["restartCount"] == 2


def test_a_deleted_pod_is_gone_when_it_has_stopped_but_never_later_than_its_grace_allows() -> None:
    stopping = pod({STOP_SECONDS: "100"}, running())
    graceful = msgspec.structs.replace(
        stopping, metadata=msgspec.structs.replace(stopping.metadata, deletion_grace_period_seconds=30)
    )
    assert look(graceful, after=10, deleted=0) == Step(wake_at=NOW + 30)
    assert look(graceful, after=30, deleted=0) == Step(is_gone=True)


def test_conditions_keep_their_time_while_they_hold_and_those_of_others_stay() -> None:
    status = running() | {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "X"},
        ]
    }
    ended = look(pod({LIFETIME_SECONDS: "1"}, status, restartPolicy="Never"), after=1).status
    assert ended is not None
    by_type = {one["type"]: one for one in ended["conditions"]}
    assert by_type["PodScheduled"]["lastTransitionTime"] == "2025-12-31T00:00:00Z"
    assert by_type["DisruptionTarget"]["reason"] == "X"


def test_an_annotation_that_is_no_number_counts_as_not_given() -> None:
    assert Behaviour.of({LIFETIME_SECONDS: "long"}) == Behaviour()
