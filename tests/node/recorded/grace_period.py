"""How long pods and containers get to stop (S3-37, S3-38)."""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.node.grace_periods import KILLING, grace_period, probe_stop_timeout, stop_events, stop_timeout
from tests.node.golden import Row, expected, rows

_PROBES = {"LivenessProbe": "livenessProbe", "StartupProbe": "startupProbe"}


@rows("grace_period")
def test_a_pod_gets_the_time_that_was_recorded(row: Row) -> None:
    pod = row["pod"]
    if "deletionGracePeriodSeconds" in row:
        seconds = row["deletionGracePeriodSeconds"]
        pod = pod | {"metadata": pod["metadata"] | {"deletionGracePeriodSeconds": seconds}}
    assert (_of_probe(row, pod) if "kill" in row else _of_pod(row, pod)) in expected(row)


def _of_pod(row: Row, pod: Obj) -> Row:
    period = grace_period(pod, row.get("override"), row.get("alreadyStoppingWith"))
    shortened = {"shortened": True} if period.is_shortened else {}
    events = [
        {
            "object": f"pod/{pod['metadata']['name']}",
            "fieldPath": event.field_path,
            "type": "Normal",
            "reason": KILLING,
            "message": event.message,
        }
        for event in stop_events(pod)
    ]
    return {"gracePeriod": period.seconds, "stopTimeout": stop_timeout(period.seconds), "events": events} | shortened


def _of_probe(row: Row, pod: Obj) -> Row:
    (container,) = pod["spec"]["containers"]
    return {"stopTimeout": probe_stop_timeout(pod, container, _PROBES[row["kill"]])}
