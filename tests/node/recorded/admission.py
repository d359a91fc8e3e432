"""Which pods a node takes, with the texts of those it does not (S0-54, S0-55, S3-43, S3-44)."""

from __future__ import annotations

from typing import Any

from fairlead.api.objects import Obj
from fairlead.api.qos import qos_class
from fairlead.node.admission import NodeAdmission, Refusal, admit
from fairlead.node.preemption import MESSAGE, PREEMPTING, preempted_condition, preempted_status
from tests.node.golden import Row, expected, normalised, rows


@rows("admission")
def test_a_node_takes_or_refuses_a_pod_as_recorded(row: Row) -> None:
    admission = admit(row["pod"], row["node"], row["runningPods"], row.get("nodePressure", ()))
    assert normalised(_answer(row["pod"], admission)) in expected(row)


def _answer(pod: Obj, admission: NodeAdmission) -> Row:
    if admission.refusal is not None:
        return {"admit": False, **_refused(pod, admission.refusal)}
    found: Row = {"admit": True}
    if admission.preempted:
        found["preempted"] = [
            {"pod": victim["metadata"]["name"], **preempted_status(), "condition": preempted_condition()}
            for victim in admission.preempted
        ]
        found["events"] = [_event(victim, PREEMPTING, MESSAGE) for victim in admission.preempted]
    return found


def _refused(pod: Obj, refusal: Refusal) -> Row:
    return {
        "reason": refusal.reason,
        "message": refusal.message,
        "podStatus": refusal.status() | {"qosClass": qos_class(pod["spec"])},
        "events": [_event(pod, refusal.reason, refusal.message)],
    }


def _event(pod: Obj, reason: str, message: str) -> dict[str, Any]:
    return {"object": f"pod/{pod['metadata']['name']}", "type": "Warning", "reason": reason, "message": message}
