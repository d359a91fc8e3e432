"""The arithmetic that admission and the quota controller share (S0-79)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import quota
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts
from fairlead.api.quantity import ZERO, Quantity, parse

NOW = 1_767_225_600.0

amounts = st.dictionaries(
    st.sampled_from(["pods", "requests.cpu", "limits.memory"]),
    st.integers(0, 10**6).map(lambda milli: parse(f"{milli}m")),
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cpu", "pods"),
        ("requests.cpu", "pods"),
        ("limits.ephemeral-storage", "pods"),
        ("hugepages-2Mi", "pods"),
        ("requests.hugepages-2Mi", "pods"),
        ("requests.example.com/gpu", "pods"),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "pods"),
        ("limits.example.com/gpu", ""),
        ("requests.kubernetes.io/x", ""),
        ("count/pods", "pods"),
        ("services.loadbalancers", "services"),
        ("requests.storage", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("gpu.deviceclass.resource.k8s.io/devices", "resourceclaims.resource.k8s.io"),
        ("gpu.deviceclass.resource.k8s.io/storage", ""),
        ("count/deployments.apps", "deployments.apps"),
        ("secrets", "secrets"),
        ("deployments", ""),
        ("count/events", ""),
        ("count/events.events.k8s.io", ""),
    ],
)
def test_each_name_is_counted_on_one_kind(name: str, kind: str) -> None:
    assert quota.counted_on(name) == kind


@given(amounts, amounts)
def test_what_was_charged_can_be_taken_back(used: Amounts, more: Amounts) -> None:
    back = quota.taken_back(quota.added(used, more), more)
    assert {name: back[name] for name in used} == used
    assert all(back[name] == ZERO for name in back.keys() - used.keys())


@given(amounts, amounts)
def test_an_increase_is_never_negative_and_leads_at_least_to_the_new_usage(new: Amounts, old: Amounts) -> None:
    grown = quota.increase(new, old)
    assert all(amount > ZERO for amount in grown.values())
    assert all(old.get(name, ZERO) + grown.get(name, ZERO) >= amount for name, amount in new.items())


@given(amounts)
def test_amounts_are_told_in_the_order_of_their_names(used: Amounts) -> None:
    assert quota.joined(used) == ",".join(f"{name}={amount}" for name, amount in sorted(used.items()))


def pod(cpu: str, status: Obj | None = None, **meta: object) -> Obj:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "p", **meta}, "spec": {"containers": [container]}, "status": status or {}}


@pytest.mark.parametrize(
    ("made", "is_alive"),
    [
        (pod("1"), True),
        (pod("1", {"phase": "Succeeded"}), False),
        (pod("1", {"phase": "Failed"}), False),
        (pod("1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=30), True),
        (pod("1", deletionTimestamp="2025-12-31T23:59:00Z", deletionGracePeriodSeconds=30), False),
    ],
)
def test_a_finished_or_overdue_pod_counts_only_as_an_object(made: Obj, is_alive: bool) -> None:
    expected = {"count/pods", "pods", "cpu", "requests.cpu"} if is_alive else {"count/pods"}
    assert quota.usage("pods", made, NOW).keys() == expected


def resizing(*conditions: Obj) -> Obj:
    reported = {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    return pod("5", {"containerStatuses": [reported], "conditions": list(conditions)})


def test_a_pod_being_resized_counts_for_the_most_it_may_hold() -> None:
    assert quota.usage("pods", resizing(), NOW)["requests.cpu"] == Quantity.of_units(5)
    infeasible = {"type": "PodResizePending", "reason": "Infeasible"}
    assert quota.usage("pods", resizing(infeasible), NOW)["requests.cpu"] == Quantity.of_units(3)


def test_a_fraction_of_a_byte_of_storage_is_rounded_up() -> None:
    claim = {"metadata": {}, "spec": {"resources": {"requests": {"storage": "1500m"}}}}
    assert str(quota.usage("persistentvolumeclaims", claim, NOW)["requests.storage"]) == "2"


def test_a_resource_claim_counts_for_the_most_devices_of_each_class_that_it_may_get() -> None:
    def asked(name: str, count: int | None = None) -> Obj:
        much: Obj = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
        return {"deviceClassName": name} | much

    requests = [
        {"name": "a", "exactly": asked("gpu", 2)},
        {"name": "b", "exactly": asked("gpu", 1)},
        {"name": "c", "firstAvailable": [asked("gpu", 3), asked("gpu", 4), asked("fpga")]},
    ]
    counted = quota.usage("resourceclaims.resource.k8s.io", {"spec": {"devices": {"requests": requests}}}, NOW)
    assert quota.texts(counted) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "7",
        "fpga.deviceclass.resource.k8s.io/devices": "32",
        "requests.deviceclass.resource.kubernetes.io/gpu": "7",
        "requests.deviceclass.resource.kubernetes.io/fpga": "32",
    }


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("devices", "asked", "told", "counted"),
    [
        (1, {IMPLICIT: "1"}, "c", {"requests.example.com/gpu": "1"}),
        (1, {"example.com/gpu": "1"}, "c", {f"requests.{IMPLICIT}": "1"}),
        (
            2,
            {"example.com/gpu": "1", IMPLICIT: "1"},
            "c",
            {"requests.example.com/gpu": "1", f"requests.{IMPLICIT}": "1"},
        ),
        (1, {"example.com/gpu": "1"}, None, {f"requests.{IMPLICIT}": "1"}),
        (1, {"example.com/gpu": "1"}, "other", {"requests.example.com/gpu": "1", f"requests.{IMPLICIT}": "1"}),
    ],
)
def test_what_a_pod_counts_for_its_claim_of_extended_resources_does_not(
    devices: int, asked: Obj, told: str | None, counted: Obj
) -> None:
    """As upstream's TestResourceClaimEvaluatorUsage has it; pods count for the name by which they ask."""
    pod: Obj = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}
    if told is not None:
        pod["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": told}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    meta = {
        "name": "c",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    facts = quota.DeviceFacts({"gpu": "example.com/gpu"}.__getitem__, {"p": pod}.get)
    found = quota.texts(quota.usage("resourceclaims.resource.k8s.io", claim, NOW, facts))
    assert {name: count for name, count in found.items() if name.startswith("requests.")} == counted
    assert found["gpu.deviceclass.resource.k8s.io/devices"] == str(devices)
    of_pod = quota.texts(quota.usage("pods", pod, NOW))
    assert {name: count for name, count in of_pod.items() if name != "pods" and not name.startswith("count/")} == {
        f"requests.{name}": count for name, count in asked.items()
    }
