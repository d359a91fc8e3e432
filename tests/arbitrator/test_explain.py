"""What the share of its namespace has to do with a pod, in sentences."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.explain import notes
from fairlead.arbitrator.objects import Allocation

Obj = dict[str, Any]


def pod(**requests: str) -> Pod:
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    return msgspec.convert({"metadata": {"name": "p", "namespace": "a"}, "spec": spec}, Pod)


def allocation(granted: Obj, deserved: Obj, used: Obj, **status: Any) -> Allocation:
    full_status: Obj = {"granted": granted, "deserved": deserved, "used": used, "bottleneck": "cpu"} | status
    return msgspec.convert({"metadata": {"namespace": "a"}, "status": full_status}, Allocation)


def test_the_resource_that_binds_is_named_though_the_namespace_lacks_another_most() -> None:
    amounts: Obj = {"requests.cpu": "4", "requests.memory": "1Gi"}
    used: Obj = {"requests.cpu": "1", "requests.memory": "1Gi"}
    messages = notes(pod(cpu="1", memory="1Gi"), [allocation(amounts, amounts, used)])
    assert messages == [
        "namespace a uses 1Gi of the 1Gi requests.memory that it may use now, and the pod needs 1Gi",
        "it deserves 1Gi requests.memory: what others want of memory is their share",
    ]


def test_that_taking_back_did_not_help_is_told_to_whom_it_was_to_help() -> None:
    futile = {"type": "ReclaimFutile", "status": "True", "message": "others took it"}
    granted: Obj = {"requests.cpu": "0"}
    assert notes(pod(cpu="1"), [allocation(granted, {"requests.cpu": "4"}, {}, conditions=[futile])])[1:] == [
        "it deserves 4 requests.cpu; the rest is not free yet",
        "others took it",
    ]


def test_what_is_given_up_for_several_is_not_told_as_for_one_alone() -> None:
    amounts: Obj = {"requests.cpu": "1"}

    def told(*beneficiaries: str) -> str:
        victims = [{"name": f"v{number}", "uid": str(number)} for number in range(len(beneficiaries))]
        proposal = {"deadline": "2026-01-01T00:00:00Z", "victims": victims, "beneficiaries": list(beneficiaries)}
        return notes(pod(cpu="1"), [allocation(amounts, amounts, amounts, proposal=proposal)])[-1]

    assert told("a/p") == "for this pod, a gives up v0 at 2026-01-01T00:00:00Z"
    assert told("a/p", "a/q") == "for this pod and 1 other, a gives up v0, v1 at 2026-01-01T00:00:00Z"
    assert told("a/o", "a/p", "a/q").startswith("for this pod and 2 others, a gives up v0, v1, v2 at ")
