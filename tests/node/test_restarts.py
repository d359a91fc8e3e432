"""Whether and when a container runs again, as the real kubelet decided it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import encoded
from fairlead.api.pods import Pod
from fairlead.golang.durations import parse_seconds
from fairlead.node.restarts import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    BackOff,
    back_off_event,
    crash_loop_message,
    first_try,
    init_runs_again,
    runs_again,
)
from tests.node.restarts import container_of, rows


def restarts(row: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """What our functions say to the runs of a row, in its own form, and the messages of the events."""
    pod, name = encoded(row["pod"]).view(Pod), container_of(row)
    longest = parse_seconds(row["config"].get("crashLoopBackOff", {}).get("maxContainerRestartPeriod", "5m"))
    is_init = any(one.name == name for one in pod.spec.init_containers)
    container = next(one for one in (*pod.spec.init_containers, *pod.spec.containers) if one.name == name)
    back_off: BackOff | None = None
    began = 0.0
    told: list[dict[str, Any]] = []
    messages: list[str] = []
    for run in row["runs"]:
        ended = began + parse_seconds(run["for"])
        found: dict[str, Any] = {"exitCode": run["exitCode"], "startedAt": began, "exitedAt": ended}
        told.append(found)
        if not (init_runs_again if is_init else runs_again)(container, pod.spec.restart_policy, run["exitCode"]):
            return told, messages
        began = ended if back_off is None else back_off.allowed_at(ended)
        back_off = first_try(began, longest) if back_off is None else back_off.tried(ended, began)
        found |= {"restartedAt": began, "waited": began - ended}
        if began > ended:
            found["waitingMessage"] = crash_loop_message(began - ended, name, pod)
            messages.append(back_off_event(name, pod))
    return told, messages


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_containers_restart_as_recorded(row: dict[str, Any]) -> None:
    told, messages = restarts(row)
    expected = []
    for one in row["expect"]["restarts"]:
        times = {
            key: parse_seconds(one[key])
            for key in ("startedAt", "exitedAt", "restartedAt", "waited")
            if one.get(key, "never") != "never"
        }
        message = {"waitingMessage": one["waitingMessage"]} if "waitingMessage" in one else {}
        expected.append({"exitCode": one["exitCode"], **times, **message})
    assert told == expected
    assert sorted(set(messages)) == sorted(one["message"] for one in row["expect"]["events"])


@given(st.lists(st.floats(0, 2000), max_size=3000))
def test_a_back_off_stays_within_its_bounds_however_often_a_container_fails(lives: list[float]) -> None:
    back_off, now = first_try(0.0), 0.0
    for life in lives:
        ended = now + life
        waited = back_off.allowed_at(ended) - ended
        assert waited == 0 or FIRST_SECONDS - 0.001 <= waited <= LONGEST_SECONDS + 0.001
        now = ended + waited
        back_off = back_off.tried(ended, now)
