"""Property: whoever looks at a machine when it says so misses nothing that sampling would have seen."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.node.configuration.load import configure
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.eviction.signals import Signal
from fairlead.node.log_rotation import LogPolicy
from fairlead.sim.machine.hardware import hardware_of
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machine import MOST_KILLS, SimulatedMachine
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.usage.declared import node_usage, pod_usage
from tests.examples import examples

GI = 2**30
BEGAN = 1_700_000_000.0
#: Looks happen this much after memory has ended at the latest.
LATENESS = 0.1

mebibytes = st.integers(1, 1500)
texts = st.one_of(
    mebibytes.map(lambda size: f"{size}Mi"),
    st.tuples(mebibytes, mebibytes, st.integers(1, 400)).map(
        lambda of: f"ramp(from={of[0]}Mi, to={of[1]}Mi, over={of[2]}s)"
    ),
    st.tuples(mebibytes, mebibytes).map(lambda of: f"leak({of[0] / 10}Mi/s, from={of[1]}Mi)"),
    st.tuples(mebibytes, mebibytes, st.integers(20, 300), st.integers(1, 19)).map(
        lambda of: f"burst(base={of[0]}Mi, peak={of[1]}Mi, every={of[2]}s, lasts={of[3]}s)"
    ),
    st.tuples(mebibytes, mebibytes, st.integers(60, 1000)).map(
        lambda of: f"wave(low={min(of[:2])}Mi, high={max(of[:2])}Mi, period={of[2]}s)"
    ),
    mebibytes.map(lambda size: f"noise(mean={size}Mi, spread=30%)"),
)


def machine() -> SimulatedMachine:
    capacity = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    node: Obj = {"metadata": {"name": "n"}, "status": {"capacity": capacity}}
    return SimulatedMachine(hardware_of(msgspec.convert(node, Node)), configure({}))


def pod(number: int, memory: str) -> MachinePod:
    manifest: Obj = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"u{number}",
            "annotations": {"sim.fairlead.dev/usage-memory": memory},
        },
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "256Mi"}}}]},
    }
    made = msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)
    return MachinePod(
        made, pod_usage(made), {"c": BEGAN}, frozenset(), lambda key: made, LogPolicy.of(KubeletConfiguration())
    )


def is_out_of_memory(of: SimulatedMachine, now: float) -> bool:
    return of.figures(read_at(now)).anonymous > of.hardware.machine.memory_bytes


def is_short(of: SimulatedMachine, now: float) -> bool:
    observed = of.stats(now).observations(of.hardware.filesystems)[Signal.MEMORY]
    return observed.available < 100 * 2**20


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(texts, min_size=1, max_size=8), st.floats(0, 1))
def test_no_look_is_late(memories: list[str], phase: float) -> None:
    looked = machine()
    for number, memory in enumerate(memories):
        looked.put(pod(number, memory), BEGAN)
    now, end = BEGAN, BEGAN + 900
    while now < end:
        look = looked.look(now)
        assert not is_out_of_memory(looked, now)
        if look.outcome is not None:
            for eviction in look.outcome.evictions:
                looked.remove(eviction.candidate.uid, now)
        next_at = end if look.next_at is None else min(look.next_at, end)
        assert next_at > now
        for step in range(8):
            at = now + (next_at - now) * min(step + phase, 8) / 8
            if at < next_at - LATENESS:
                assert not is_out_of_memory(looked, at)
            if next_at - now > 10:  # nobody looks at the next tick: then no threshold may be met there
                assert not is_short(looked, at)
        now = next_at


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(texts, min_size=1, max_size=8))
def test_what_is_summed_as_pods_come_and_go_is_what_a_fresh_sum_gives(memories: list[str]) -> None:
    changed, fresh = machine(), machine()
    for number, memory in enumerate(memories):
        changed.put(pod(number, memory), BEGAN)
        changed.put(pod(number, "1Gi"), BEGAN)
        if number % 2:
            changed.remove(f"u{number}", BEGAN)
        else:
            changed.put(pod(number, memory), BEGAN)
            fresh.put(pod(number, memory), BEGAN)
    for seconds in (0.0, 30.0, 1000.0):
        read = read_at(BEGAN + seconds)
        assert changed.figures(read).working_set == fresh.figures(read).working_set


def short_machine() -> SimulatedMachine:
    """Its threshold is beyond what it has free, and it has so much that the kernel kills nobody."""
    node: Obj = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "64Ti"}}}
    configured = configure({}, ["--eviction-hard=memory.available<63Ti"])
    made = SimulatedMachine(hardware_of(msgspec.convert(node, Node)), configured)
    daemons: Obj = {"metadata": {"name": "n", "annotations": {"sim.fairlead.dev/usage-memory": "2Ti"}}}
    made.declare(node_usage(msgspec.convert(daemons, Node)), BEGAN)
    return made


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.one_of(texts, st.none())), max_size=16))
def test_who_goes_next_does_not_depend_on_earlier_passes(changes: list[tuple[int, str | None]]) -> None:
    """The order is kept from pass to pass; a machine that passes for the first time makes it anew."""
    watched = short_machine()
    pods: dict[int, MachinePod] = {}
    for step, (number, memory) in enumerate(changes):
        if memory is None:
            watched.remove(f"u{number}", BEGAN)
            pods.pop(number, None)
        else:
            pods[number] = pod(number, memory)
            watched.put(pods[number], BEGAN)
        fresh = short_machine()
        for each in pods.values():
            fresh.put(each, BEGAN)
        now = BEGAN + 100.0 * (step + 1)
        seen, expected = watched.look(now).outcome, fresh.look(now).outcome
        assert seen is not None
        assert expected is not None
        assert seen.evictions == expected.evictions
        assert watched.ranking == fresh.ranking


def test_a_machine_whose_daemons_alone_take_all_memory_is_looked_at_no_oftener_than_ten_seconds() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "n", "annotations": {"sim.fairlead.dev/usage-memory": "leak(1Gi/s)"}},
            "status": {"capacity": {"cpu": "4", "memory": "4Gi"}},
        },
        Node,
    )
    looked = SimulatedMachine(hardware_of(node), configure({}))
    looked.declare(node_usage(node), BEGAN)
    now, looks = BEGAN + 60, 0
    while now < BEGAN + 660:
        looks += 1
        next_at = looked.look(now).next_at
        assert next_at is not None
        now = next_at
    assert looks <= 61


def test_many_kills_are_made_in_several_looks_that_follow_at_once() -> None:
    """Others get a turn in between."""
    exhausted, count = machine(), MOST_KILLS + 3
    for number in range(count):
        exhausted.put(pod(number, "1Gi"), BEGAN)
    node: Obj = {"metadata": {"name": "n", "annotations": {"sim.fairlead.dev/usage-memory": "5Gi"}}}
    exhausted.declare(node_usage(msgspec.convert(node, Node)), BEGAN)
    first = exhausted.look(BEGAN)
    assert (len(first.kills), first.outcome, first.next_at) == (MOST_KILLS, None, BEGAN)
    second = exhausted.look(BEGAN)
    assert len({kill.pod.uid for kill in (*first.kills, *second.kills)}) == count
    assert second.next_at == BEGAN + 10
