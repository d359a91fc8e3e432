"""LimitRanges: defaults, bounds and their texts (S0-82 to S0-104)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.server.admission.base import Attributes
from fairlead.server.admission.limit_ranger import LIMIT_RANGER_ANNOTATION as ANNOTATION
from fairlead.server.admission.limit_ranger import LimitRanger
from tests.server.admission_world import CLAIMS, World, admit, change, container, creation, pod

GUIDE = [
    {
        "type": "Pod",
        "max": {"cpu": "4", "memory": "2Gi"},
        "min": {"cpu": "200m", "memory": "6Mi"},
        "maxLimitRequestRatio": {"cpu": "3", "memory": "2"},
    },
    {
        "type": "Container",
        "default": {"cpu": "300m", "memory": "200Mi"},
        "defaultRequest": {"cpu": "200m", "memory": "100Mi"},
        "max": {"cpu": "2", "memory": "1Gi"},
        "min": {"cpu": "100m", "memory": "3Mi"},
        "maxLimitRequestRatio": {"cpu": "5", "memory": "4"},
    },
]


def ranger(*items: Obj) -> LimitRanger:
    limits = {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": list(items)}}
    return LimitRanger(World().put("limitranges", limits).dependencies)


def refusal(plugin: LimitRanger, attributes: Attributes) -> str:
    with pytest.raises(Forbidden) as refused:
        admit(plugin, attributes)
    return refused.value.message.partition(" is forbidden: ")[2]


def test_pod_without_limits_gets_the_default_of_its_namespace() -> None:
    """S0-39, S0-99."""
    found = admit(ranger(*GUIDE), creation(pod()))
    assert found["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "300m", "memory": "200Mi"},
        "requests": {"cpu": "200m", "memory": "100Mi"},
    }
    assert found["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
    }


def test_only_what_is_missing_is_filled_in_and_noted() -> None:
    plugin = ranger({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}})
    containers = [container("a", {"cpu": "1"}), container("b", {"cpu": "1"}, {"cpu": "1"})]
    found = admit(plugin, creation(pod(containers=containers, initContainers=[container("i")])))
    assert found["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu limit for container a; "
        "cpu request for init container i; cpu limit for init container i"
    )
    assert found["spec"]["containers"][1] == containers[1]


def test_the_guides_valid_pod_keeps_its_own_values() -> None:
    """S0-102."""
    own = {"cpu": "1", "memory": "512Mi"}
    found = admit(ranger(*GUIDE), creation(pod(containers=[container("c", own, own)])))
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize(
    ("requests", "limits", "why"),
    [
        (
            {"cpu": "3", "memory": "100Mi"},
            {"cpu": "3", "memory": "100Mi"},
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            {"cpu": "800m", "memory": "250Mi"},
            {"cpu": "1", "memory": "512Mi"},
            "memory max limit to request ratio per Pod is 2, but provided ratio is 2.048000",
        ),
    ],
)
def test_the_guides_invalid_pods_are_refused(requests: Obj, limits: Obj, why: str) -> None:
    """S0-100, S0-101."""
    assert refusal(ranger(*GUIDE), creation(pod(containers=[container("c", requests, limits)]))) == why


CONTAINER: dict[str, Any] = {"type": "Container"}


@pytest.mark.parametrize(
    ("rule", "requests", "limits", "why"),
    [
        ({"min": {"cpu": "1"}}, {}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        ({"min": {"cpu": "1"}}, {"cpu": "500m"}, {}, "minimum cpu usage per Container is 1, but request is 500m"),
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1m"}, "minimum cpu usage per Container is 1, but limit is 1m"),
        ({"max": {"cpu": "1"}}, {"cpu": "1"}, {}, "maximum cpu usage per Container is 1.  No limit is specified"),
        ({"max": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}, "maximum cpu usage per Container is 1, but request is 2"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "0"},
            {"cpu": "1"},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "1"},
            {},
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"maxLimitRequestRatio": {"memory": "1500m"}},
            {"memory": "100Mi"},
            {"memory": "160Mi"},
            "memory max limit to request ratio per Container is 1500m, but provided ratio is 1.600000",
        ),
    ],
)
def test_each_bound_has_its_text(rule: Obj, requests: Obj, limits: Obj, why: str) -> None:
    """S0-89, S0-103."""
    plugin = ranger(CONTAINER | rule)
    assert refusal(plugin, creation(pod(containers=[container("c", requests, limits)]))) == why


def test_a_ratio_exactly_at_the_bound_passes() -> None:
    """S0-91."""
    plugin = ranger(CONTAINER | {"maxLimitRequestRatio": {"cpu": "3"}})
    admit(plugin, creation(pod(containers=[container("c", {"cpu": "100m"}, {"cpu": "300m"})])))


@pytest.mark.parametrize("restart", [{}, {"restartPolicy": "Always"}])
def test_pod_bounds_follow_the_formula_of_init_containers_and_sidecars(restart: Obj) -> None:
    plugin = ranger({"type": "Pod", "max": {"cpu": "1"}})
    main, first = container("a", {}, {"cpu": "600m"}), container("i", {}, {"cpu": "600m"}, **restart)
    attributes = creation(pod(containers=[main], initContainers=[first]))
    if restart:
        assert refusal(plugin, attributes) == "maximum cpu usage per Pod is 1, but limit is 1200m"
    else:
        admit(plugin, attributes)


def test_pod_level_resources_replace_the_sum_and_overhead_does_not_count() -> None:
    plugin = ranger({"type": "Pod", "max": {"cpu": "1"}})
    big = container("c", {}, {"cpu": "900m"})
    admit(plugin, creation(pod(containers=[big], overhead={"cpu": "1"})))
    levelled = pod(containers=[big], resources={"limits": {"cpu": "2"}})
    assert refusal(plugin, creation(levelled)) == "maximum cpu usage per Pod is 1, but limit is 2"


def test_several_offences_come_in_brackets_in_the_order_of_the_items() -> None:
    """S0-100."""
    plugin = ranger({"type": "Pod", "max": {"cpu": "2"}}, CONTAINER | {"max": {"cpu": "2"}})
    assert refusal(plugin, creation(pod(containers=[container("c", {}, {"cpu": "3"})]))) == (
        "[maximum cpu usage per Pod is 2, but limit is 3, maximum cpu usage per Container is 2, but limit is 3]"
    )


def test_resize_is_checked_and_other_updates_are_not() -> None:
    """S0-96."""
    plugin = ranger(CONTAINER | {"max": {"cpu": "1"}})
    old = pod(containers=[container("c", {}, {"cpu": "1"})])
    new = pod(containers=[container("c", {}, {"cpu": "2"})])
    admit(plugin, change(old, new))
    assert "but limit is 2" in refusal(plugin, change(old, new, subresource="resize"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    admit(plugin, change(old, new, subresource="resize"))


@pytest.mark.parametrize(("size", "word"), [("500Mi", "minimum"), ("3Gi", "maximum")])
def test_claims_are_bounded_by_their_request(size: str, word: str) -> None:
    """S0-87."""
    plugin = ranger({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    claim = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"resources": {"requests": {"storage": size}}},
    }
    bound = "1Gi" if word == "minimum" else "2Gi"
    expected = f"{word} storage usage per PersistentVolumeClaim is {bound}, but request is {size}"
    assert refusal(plugin, creation(claim, CLAIMS)) == expected


def test_a_ratio_means_nothing_to_a_claim() -> None:
    bounds = {"max": {"storage": "2Gi"}, "maxLimitRequestRatio": {"storage": "2"}}
    claim = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    admit(ranger({"type": "PersistentVolumeClaim"} | bounds), creation(claim, CLAIMS))


def test_another_namespaces_limits_do_not_matter() -> None:
    """S0-94."""
    limits = {"metadata": {"name": "l", "namespace": "other"}, "spec": {"limits": [CONTAINER | {"max": {"cpu": "1"}}]}}
    admit(LimitRanger(World().put("limitranges", limits).dependencies), creation(pod()))


def test_thousands_of_bounds_and_containers_are_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counted(kind: str, resource: str, *_: object) -> str:
        checked.append(resource)
        return f"{resource} is wrong"

    monkeypatch.setattr("fairlead.server.admission.limit_ranger._minimum", counted)
    count = 300
    rule = {"type": "Container", "min": {f"example.com/r{number}": "1" for number in range(count)}}
    containers = [container(f"c{number}", {f"example.com/r{number % 3}": "2"}) for number in range(count)]
    wrong = ", ".join(f"example.com/r{number} is wrong" for number in range(count))
    assert refusal(ranger(rule), creation(pod(containers=containers))).endswith(f"[{wrong}]")
    assert len(checked) <= 3 * count


def test_defaults_end_where_the_note_of_them_is_too_long_for_a_pod() -> None:
    """Which is refused for that, and would have grown to gigabytes."""
    count = 1000
    defaults = {f"example.com/r{number}": "1" for number in range(count)}
    given = admit(
        ranger({"type": "Container", "default": defaults}),
        creation(pod(containers=[container(f"c{number}") for number in range(count)])),
    )
    assert len(given["metadata"]["annotations"][ANNOTATION]) > 256 << 10
    assert sum(len(made["resources"].get("limits", ())) for made in given["spec"]["containers"]) < 20 * count
