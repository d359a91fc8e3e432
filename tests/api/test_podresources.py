"""What a pod asks for as a whole (S0-40)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.podresources import Amounts, pod_limits, pod_requests
from fairlead.api.quantity import ZERO


def container(cpu: int | None, *, sidecar: bool = False, kind: str = "requests") -> dict[str, Any]:
    one: dict[str, Any] = {"resources": {kind: {"cpu": f"{cpu}m"}} if cpu is not None else {}}
    return one | ({"restartPolicy": "Always"} if sidecar else {})


def texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_init_containers_need_their_share_before_the_others_start() -> None:
    spec = {"containers": [container(100), container(200)], "initContainers": [container(250), container(400)]}
    assert texts(pod_requests(spec)) == {"cpu": "400m"}


def test_sidecars_run_beside_everything_that_starts_later() -> None:
    early = {"containers": [container(100)], "initContainers": [container(50, sidecar=True), container(300)]}
    late = {"containers": [container(100)], "initContainers": [container(300), container(50, sidecar=True)]}
    assert texts(pod_requests(early)) == {"cpu": "350m"}
    assert texts(pod_requests(late)) == {"cpu": "300m"}


def test_pod_level_resources_replace_the_sum_for_what_they_name() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1", "example.com/gpu": "2"}}}],
        "resources": {"requests": {"cpu": "3"}},
    }
    assert texts(pod_requests(spec)) == {"cpu": "3", "example.com/gpu": "2"}


def test_overhead_is_a_request_always_and_a_limit_only_where_there_is_one() -> None:
    spec = {
        "containers": [{"resources": {"limits": {"cpu": "1"}}}],
        "overhead": {"cpu": "250m", "memory": "120Mi"},
    }
    assert texts(pod_requests(spec)) == {"cpu": "250m", "memory": "120Mi"}
    assert texts(pod_limits(spec)) == {"cpu": "1250m"}
    assert texts(pod_limits(spec, with_overhead=False)) == {"cpu": "1"}


amounts = st.one_of(st.none(), st.integers(0, 10_000))


@given(st.lists(amounts, min_size=1, max_size=4), st.lists(st.tuples(amounts, st.booleans()), max_size=5))
def test_the_need_of_a_pod_is_the_peak_over_all_phases_of_its_start(
    containers: list[int | None], init: list[tuple[int | None, bool]]
) -> None:
    """The formula agrees with walking through the start of the pod step by step."""
    spec = {
        "containers": [container(cpu) for cpu in containers],
        "initContainers": [container(cpu, sidecar=sidecar) for cpu, sidecar in init],
    }
    running = peak = 0
    for cpu, sidecar in init:
        peak = max(peak, running + (cpu or 0))
        running += (cpu or 0) if sidecar else 0
    peak = max(peak, running + sum(cpu or 0 for cpu in containers))
    assert pod_requests(spec).get("cpu", ZERO).milli == peak
