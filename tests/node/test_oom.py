"""What must hold for the OOM scores of any pod, whatever the recorded ones are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.critical import is_critical, is_mirror, is_node_critical, is_static
from fairlead.node.oom import EXEMPT, LEAST_PROTECTED, PROTECTED, Process, oom_score_adjustments, oom_victim

GI = 2**30
memory = st.integers(1, 64 * GI)


def burstable(*requests: int, sidecars: tuple[int, ...] = ()) -> dict[str, Any]:
    def container(name: str, request: int) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"memory": str(request)}}}

    return {
        "spec": {
            "containers": [container(f"c{index}", request) for index, request in enumerate(requests)],
            "initContainers": [
                container(f"s{index}", request) | {"restartPolicy": "Always"} for index, request in enumerate(sidecars)
            ],
        }
    }


@given(st.lists(memory, min_size=1, max_size=4), st.lists(memory, max_size=2), memory)
def test_burstable_stands_between_the_other_classes(requests: list[int], sidecars: list[int], capacity: int) -> None:
    """S4-16."""
    adjustments = oom_score_adjustments(burstable(*requests, sidecars=tuple(sidecars)), capacity)
    assert all(PROTECTED < adjustment < LEAST_PROTECTED for adjustment in adjustments.values())


@given(memory, memory, memory)
def test_who_requests_more_is_killed_later(less: int, more: int, capacity: int) -> None:
    """S4-16, S4-17."""
    less, more = sorted((less, more))
    adjustments = oom_score_adjustments(burstable(less, more), capacity)
    assert adjustments["c1"] <= adjustments["c0"]


@given(st.lists(memory, min_size=1, max_size=4), memory, memory)
def test_a_sidecar_does_not_die_before_whom_it_serves(requests: list[int], sidecar: int, capacity: int) -> None:
    """S4-22."""
    adjustments = oom_score_adjustments(burstable(*requests, sidecars=(sidecar,)), capacity)
    assert all(
        adjustments["s0"] <= adjustments[f"c{index}"]
        for index, request in enumerate(requests)
        if request == min(requests)
    )


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 64))
def test_within_its_request_a_container_has_the_same_score_whatever_its_size(
    small: int, large: int, capacity_gi: int
) -> None:
    """S4-20: usage in thousandths plus the adjustment is the same for all who use exactly what they requested."""
    capacity = capacity_gi * 1000 * 2**20
    adjustments = oom_score_adjustments(burstable(small * capacity // 1000, large * capacity // 1000), capacity)
    scores = [usage + adjustments[name] for usage, name in ((small, "c0"), (large, "c1")) if 1 <= usage <= 997]
    assert set(scores) <= {1000}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"spec": {}}, (False, False, False, False)),
        ({"metadata": {"annotations": {"kubernetes.io/config.source": "api"}}}, (False, False, False, False)),
        ({"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}, (True, False, True, False)),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": ""}}}, (False, True, True, False)),
        ({"spec": {"priority": 1_999_999_999}}, (False, False, False, False)),
        ({"spec": {"priority": 2_000_000_000}}, (False, False, True, False)),
        (
            {"spec": {"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}},
            (False, False, True, True),
        ),
    ],
)
def test_static_mirror_and_system_pods_are_critical(pod: dict[str, Any], expected: tuple[bool, ...]) -> None:
    """S3-86."""
    assert (is_static(pod), is_mirror(pod), is_critical(pod), is_node_critical(pod)) == expected


@pytest.mark.parametrize(
    ("process", "score"),
    [
        (Process(0, 0), 666),
        (Process(0, LEAST_PROTECTED), 1333),
        (Process(0, PROTECTED), 2),
        (Process(10 * GI, LEAST_PROTECTED), 2000),
        (Process(0, EXEMPT), 0),
        (Process(3 * GI // 2, 900), 1366),
        (Process(39 * GI // 10, 600), 1326),
    ],
)
def test_the_kernel_scores_processes_as_the_documents_say(process: Process, score: int) -> None:
    """S4-18 to S4-20, on a node of 10Gi."""
    assert process.oom_score(10 * GI) == score


def test_the_smaller_one_dies_if_it_exceeds_its_request() -> None:
    """S4-12, S4-20: 1.5Gi of 1Gi requested against 3.9Gi of 4Gi."""
    exceeding, within = Process(3 * GI // 2, 900), Process(39 * GI // 10, 600)
    assert oom_victim([within, exceeding, Process(9 * GI, EXEMPT)], 10 * GI) == exceeding
    assert oom_victim([Process(GI, EXEMPT)], 10 * GI) is None


@given(st.data())
def test_no_guaranteed_process_dies_before_one_that_exceeds_its_request(data: st.DataObject) -> None:
    """S4-15, S4-21: one process a container, and nobody requests more than there is."""
    total = data.draw(st.integers(2**30, 2**40), "total")
    limit = data.draw(st.integers(1, total), "limit of the guaranteed container")
    guaranteed = Process(data.draw(st.integers(0, limit), "its usage"), PROTECTED)
    request = data.draw(st.integers(0, total - 1), "request of the burstable container")
    adjustment = oom_score_adjustments(burstable(request), total)["c0"] if request else LEAST_PROTECTED
    exceeding = Process(data.draw(st.integers(request + 1, total), "its usage"), adjustment)
    assert oom_victim([guaranteed, exceeding], total) == exceeding


@given(st.data())
def test_no_guaranteed_process_dies_while_another_class_holds_memory(data: st.DataObject) -> None:
    """S4-15, S4-21: a thousandth of the memory decides nothing here, for a Guaranteed pod stands a whole memory below
    the rest. So it holds however many containers and processes there are, and whether or not requests are exceeded, as
    long as processes together hold no more than there is; pods of system-node-critical are as safe as Guaranteed."""
    total = data.draw(st.integers(2**30, 2**40), "total")
    requests = data.draw(st.lists(st.integers(1, total), min_size=1, max_size=3), "requests")
    sidecars = tuple(data.draw(st.lists(st.integers(1, total), max_size=2), "sidecars"))
    adjustments = [*oom_score_adjustments(burstable(*requests, sidecars=sidecars), total).values(), LEAST_PROTECTED]
    exposed = Process(data.draw(st.integers(1, total), "its usage"), data.draw(st.sampled_from(adjustments)))
    guaranteed = Process(data.draw(st.integers(0, total - exposed.memory_bytes), "usage of the other"), PROTECTED)
    assert oom_victim([guaranteed, exposed], total) == exposed


@given(st.data())
def test_beyond_a_five_hundredth_of_the_memory_whoever_exceeds_its_request_dies_first(data: st.DataObject) -> None:
    """S4-20, S4-21: adjustments are whole thousandths, cut off once and kept from those of the other classes."""
    total = data.draw(st.integers(2**30, 2**40), "total")
    less = data.draw(st.integers(1, total * 99 // 100), "request of the one within")
    more = data.draw(st.integers(1, total * 99 // 100), "request of the one above")
    adjustments = oom_score_adjustments(burstable(less, more), total)
    within = Process(data.draw(st.integers(0, less), "usage within"), adjustments["c0"])
    least = more + total // 500 + 2
    exceeding = Process(data.draw(st.integers(least, least + total), "usage above"), adjustments["c1"])
    assert oom_victim([within, exceeding], total) == exceeding
