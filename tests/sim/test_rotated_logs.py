"""What is left of what containers print, on nodes whose kubelets rotate logs."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.log_rotation import LogPolicy
from fairlead.sim.machine.rotated_logs import PACKED, RotatedLogs
from fairlead.sim.usage.models import Burst, Leak, Noise, UsageModel
from tests.sim.machine_world import World, played

_SINCE = 1_000_003.0
_MODELS: list[UsageModel] = [
    Leak(0.0, 10.0, 1e15),
    Leak(250.0, 3.5, 2000.0),
    Burst(100.0, 2000.0, 60.0, 5.0),
    Noise(500.0, 400.0, 10.0, 7),
]


def _policy(size: int, files: int, seconds: float) -> LogPolicy:
    return LogPolicy(max_bytes=size, max_files=files, interval_seconds=seconds, workers=1)


def _file_by_file(model: UsageModel, policy: LogPolicy, until: float) -> float:
    """What a kubelet leaves that looks at its files every few seconds; what it gains is gained a second later."""
    files, ended = [0.0], 0.0
    look = (_SINCE // policy.interval_seconds + 1) * policy.interval_seconds
    while look + 1.0 <= until:
        printed = model.peak(_SINCE, look, _SINCE)
        if printed - ended >= policy.max_bytes:
            kept = [*files[:-2], *(size * PACKED for size in files[-2:-1])][-(policy.max_files - 2) :]
            files = [*(kept if policy.max_files > 2 else []), printed - ended, 0.0]
            ended = printed
        look += policy.interval_seconds
    return sum(files) + model.peak(_SINCE, until, _SINCE) - ended


@given(st.sampled_from(_MODELS), st.integers(1, 700), st.integers(2, 6), st.sampled_from([3.0, 10.0, 60.0]), st.data())
def test_on_the_disk_is_what_was_not_removed(
    model: UsageModel, size: int, files: int, interval: float, data: st.DataObject
) -> None:
    policy = _policy(size, files, interval)
    logs = RotatedLogs(model, policy)
    for moment in sorted(data.draw(st.lists(st.floats(_SINCE, _SINCE + 400), min_size=1, max_size=9))):
        there = logs.at(moment, _SINCE)
        assert abs(there - _file_by_file(model, policy, moment)) < 1e-3
        end = moment + data.draw(st.floats(0, 700))
        assert logs.peak(moment, end, _SINCE) + 1e-3 >= _file_by_file(model, policy, end)


def test_the_thousandth_file_is_as_large_as_the_tenth() -> None:
    """Nobody has looked in between."""
    policy = _policy(700, 5, 10.0)
    for seconds in (100.0, 1e4, 1e7):
        there = RotatedLogs(Leak(0.0, 100.0, 1e15), policy).at(1e6 + seconds + 5, 1e6)
        assert there == 1000 + 500 + 3 * 1000 * PACKED


def test_a_million_files_are_counted_at_once_and_none_is_shorter_than_what_comes_between_two_looks() -> None:
    logs = RotatedLogs(Leak(0.0, 100.0, 1e15), _policy(1, 2_000_000, 10.0))
    rotated = 1000 + (1e6 - 1) * 1000 * PACKED
    assert logs.at(1e6 + 1e7 + 5, 1e6) == rotated + 500
    assert logs.peak(1e6 + 1e7 + 5, 1e6 + 1e7 + 9, 1e6) == rotated + 900


def test_who_prints_for_ever_does_not_fill_the_disk() -> None:
    """When the node looks there are 30 MiB that are written to, 30 that were before, and 3 packed files of 3.1 MiB."""

    async def check(world: World) -> None:
        await world.pod("enough", {"logs": "leak(3Mi/s)"}, limits={"ephemeral-storage": "73Mi"})
        await world.pod("short", {"logs": "leak(3Mi/s)"}, limits={"ephemeral-storage": "65Mi"})
        await asyncio.sleep(3600)
        assert await world.state("enough") == ("Running", "")
        assert await world.state("short") == ("Failed", "Evicted")

    played(check)


def test_kubelets_that_rotate_never_or_sooner() -> None:
    async def check(world: World) -> None:
        await world.kubelet(containerLogMaxSize="-1")
        await world.pod("never", {"logs": "leak(1Mi/s)"}, limits={"ephemeral-storage": "1Gi"})
        await asyncio.sleep(1100)
        assert await world.state("never") == ("Failed", "Evicted")
        await world.kubelet(containerLogMaxSize="1Mi", containerLogMaxFiles=2)
        await world.pod("soon", {"logs": "leak(1Mi/s)"}, limits={"ephemeral-storage": "22Mi"})
        await asyncio.sleep(3600)
        assert await world.state("soon") == ("Running", "")

    played(check)


def test_what_a_kubelet_says_of_logs_is_what_is_there() -> None:
    async def check(world: World) -> None:
        await world.pod("talking", {"logs": "leak(3Mi/s)"})
        await asyncio.sleep(3600)
        summary = msgspec.json.decode(await world.kubelet_says("stats/summary"))
        assert 30 << 20 < summary["pods"][0]["containers"][0]["logs"]["usedBytes"] < 73 << 20

    played(check)


@pytest.mark.parametrize("size", ["1500m", "1.5Gi"])
def test_a_size_that_is_none_keeps_a_kubelet_from_starting(size: str) -> None:
    async def check(world: World) -> None:
        await world.kubelet(containerLogMaxSize=size)
        await asyncio.sleep(5)
        (event,) = await world.events("KubeletNotStarted")
        assert f'failed to parse container log max size "{size}": invalid max log size' in event["message"]

    played(check)
