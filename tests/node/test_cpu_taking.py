"""Which CPUs are taken: the cases of a kubelet's own tests (cpu_assignment_test.go), and what holds of all machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.configuration.cpu_sets import listed, parse_cpu_set
from fairlead.node.cpus.taking import NotEnoughCpus, take_distributed, take_packed
from fairlead.node.cpus.topology import Shape, Topology, parse_shape
from tests.node.cpu_machines import (
    DUAL_SOCKET_HT,
    DUAL_SOCKET_NO_HT,
    MULTI_NUMA_HT,
    MULTI_NUMA_LARGE_HT,
    SINGLE_SOCKET_HT,
    UNCORE_DUAL_SOCKET,
    UNCORE_MULTI_NUMA,
    UNCORE_SINGLE_SOCKET,
    UNCORE_SMT,
)
from tests.work import growth


def cpus(text: str) -> frozenset[int]:
    return parse_cpu_set(text).cpus


#: Machine, what is free, how many are wanted, and which are taken: by either way.
COMMON = [
    (SINGLE_SOCKET_HT, "0-7", 0, ""),
    (SINGLE_SOCKET_HT, "0-7", 1, "0"),
    (SINGLE_SOCKET_HT, "1,3,5-7", 1, "6"),
    (SINGLE_SOCKET_HT, "0-7", 2, "0,4"),
    (SINGLE_SOCKET_HT, "0-7", 8, "0-7"),
    (SINGLE_SOCKET_HT, "0-3,6", 2, "2,6"),
    (DUAL_SOCKET_HT, "0-11", 6, "0,2,4,6,8,10"),
    (MULTI_NUMA_HT, "0-79", 40, "0-19,40-59"),
    (MULTI_NUMA_HT, "0-79", 20, "0-9,40-49"),
    (MULTI_NUMA_HT, "10-39,50-79", 20, "10-19,50-59"),
    (MULTI_NUMA_HT, "0-79", 60, "0-29,40-69"),
    (MULTI_NUMA_HT, "1-39,41-79", 60, "10-39,50-79"),
]


@pytest.mark.parametrize(
    ("machine", "free", "count", "taken"),
    [
        *COMMON,
        (DUAL_SOCKET_HT, "1-5,7-11", 1, "2"),
        (DUAL_SOCKET_HT, "0-11", 8, "0,6,2,8,4,10,1,7"),
        (MULTI_NUMA_HT, "0-79", 64, "0-29,40-69,30,31,70,71"),
    ],
)
def test_packed(machine: Topology, free: str, count: int, taken: str) -> None:
    assert listed(take_packed(machine, cpus(free), count)) == listed(cpus(taken))


@pytest.mark.parametrize(
    ("machine", "free", "count", "taken"),
    [
        (UNCORE_SINGLE_SOCKET, "1-15", 10, "1,2,4-11"),
        (DUAL_SOCKET_HT, "1-5,7-11", 1, "1"),
        (UNCORE_DUAL_SOCKET, "0-15", 4, "0-3"),
        (UNCORE_DUAL_SOCKET, "2-15", 6, "2-7"),
        (UNCORE_DUAL_SOCKET, "8-15", 4, "8-11"),
        (UNCORE_MULTI_NUMA, "3,4-8,12", 2, "4,5"),
        (UNCORE_SMT, "2-3,10-11,4-7,12-15", 6, "4-6,12-14"),
        (UNCORE_SMT, "1-7,9-15", 10, "4-7,12-15,1,9"),
    ],
)
def test_behind_one_cache_if_that_can_be(machine: Topology, free: str, count: int, taken: str) -> None:
    assert listed(take_packed(machine, cpus(free), count, prefers_uncore=True)) == listed(cpus(taken))


@pytest.mark.parametrize(
    ("machine", "free", "count", "taken"),
    [
        (SINGLE_SOCKET_HT, "0-7", 3, "0-2"),
        (DUAL_SOCKET_HT, "0-11", 2, "0,2"),
        (DUAL_SOCKET_HT, "0-11", 3, "0,2,4"),
        (DUAL_SOCKET_HT, "0-11", 6, "0,2,4,6,8,10"),
        (DUAL_SOCKET_HT, "0-11", 8, "0,2,4,6,8,10,1,3"),
        (DUAL_SOCKET_NO_HT, "0-7", 2, "0,1"),
        (MULTI_NUMA_HT, "0-79", 8, "0-7"),
    ],
)
def test_spread_over_cores(machine: Topology, free: str, count: int, taken: str) -> None:
    assert listed(take_packed(machine, cpus(free), count, spreads=True)) == listed(cpus(taken))


@pytest.mark.parametrize(
    ("machine", "free", "count", "group", "taken"),
    [
        *((machine, free, count, 1, taken) for machine, free, count, taken in COMMON),
        (DUAL_SOCKET_HT, "0-11", 8, 1, "0,6,2,8,1,7,3,9"),
        (MULTI_NUMA_HT, "0-79", 64, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-67,70-77"),
        (MULTI_NUMA_HT, "0-79", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
        (MULTI_NUMA_HT, "1-29,32-39,41-69,72-79", 48, 1, "1-8,10-17,20-27,41-48,50-57,60-67"),
        (MULTI_NUMA_HT, "2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
        (
            *(MULTI_NUMA_HT, "0-2,10-12,20-22,30-32,40-41,50-51,60-61,70-71", 16, 1),
            "0-1,10-11,20-21,30-31,40-41,50-51,60-61,70-71",
        ),
        (DUAL_SOCKET_HT, "1-5,7-11", 1, 1, "1"),
        (DUAL_SOCKET_HT, "1-5,7-11", 1, 2, "2"),
        (MULTI_NUMA_HT, "0-79", 26, 1, "0-6,10-16,40-45,50-55"),
        (MULTI_NUMA_HT, "0-79", 26, 2, "0-6,10-15,40-46,50-55"),
        (MULTI_NUMA_HT, "0-79", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        (MULTI_NUMA_HT, "0-79", 62, 2, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
        (
            *(MULTI_NUMA_HT, "0-8,10-18,20-39,40-48,50-58,60-79", 62, 1),
            "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77",
        ),
        (
            *(MULTI_NUMA_HT, "0-8,10-18,20-39,40-48,50-58,60-79", 62, 2),
            "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77",
        ),
        (
            *(MULTI_NUMA_HT, "0-3,10-13,20-23,30-36,40-43,50-53,60-63,70-76", 34, 1),
            "0-3,10-13,20-23,30-34,40-43,50-53,60-63,70-74",
        ),
        (
            MULTI_NUMA_LARGE_HT,
            "0,128,30,31,158,159,43-47,171-175,62,63,190,191,75-79,203-207,94,96,222,223,101-111,229-239,126,127,254,255",
            *(28, 1, "43-47,75-79,96,101-105,171-174,203-206,229-232"),
        ),
    ],
)
def test_distributed(machine: Topology, free: str, count: int, group: int, taken: str) -> None:
    assert listed(take_distributed(machine, cpus(free), count, group)) == listed(cpus(taken))


def test_what_is_not_there_is_not_taken() -> None:
    text = "not enough cpus available to satisfy request: requested=5, available=4"
    with pytest.raises(NotEnoughCpus) as refused:
        take_packed(SINGLE_SOCKET_HT, cpus("0,2,4,6"), 5)
    assert str(refused.value) == text
    with pytest.raises(NotEnoughCpus) as refused:
        take_distributed(SINGLE_SOCKET_HT, cpus("0,2,4,6"), 5, 1)
    assert str(refused.value) == text


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    sockets, numas = (draw(st.sampled_from((1, 2, 4))) for _ in range(2))
    threads, uncores = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2, 4)))
    cores = 4 * draw(st.integers(1, 5))
    return Shape(sockets, numas, uncores, threads).topology(cores * threads)


@given(machines(), st.data())
def test_so_many_of_those_that_are_free(machine: Topology, data: st.DataObject) -> None:
    free = data.draw(st.frozensets(st.sampled_from(sorted(machine.cpus))))
    count = data.draw(st.integers(0, len(free)))
    spreads, prefers_uncore = data.draw(st.booleans()), data.draw(st.booleans())
    group = data.draw(st.sampled_from((1, machine.threads_per_core)))
    for taken in (
        take_packed(machine, free, count, spreads=spreads, prefers_uncore=prefers_uncore),
        take_distributed(machine, free, count, group, spreads=spreads),
    ):
        assert len(taken) == count
        assert taken <= free


@given(machines(), st.data())
def test_whole_cores_come_first(machine: Topology, data: st.DataObject) -> None:
    """Of a machine that is free one core at most is begun without being finished."""
    count, threads = data.draw(st.integers(0, len(machine.cpus))), machine.threads_per_core
    taken = take_packed(machine, machine.cpus, count)
    begun = [core for core in machine.within("core", taken).values() if len(core) < threads]
    assert len(begun) == (1 if count % threads else 0)


@given(st.frozensets(st.integers(0, 400)))
def test_a_list_of_cpus_is_read_as_it_was_written(cpus_: frozenset[int]) -> None:
    assert parse_cpu_set(listed(cpus_)).cpus == cpus_


def test_a_machine_that_somebody_only_describes_has_no_more_than_any_has() -> None:
    """Of 24 NUMA nodes an even division took hours to find, of a thousand million CPUs a list took all memory."""
    with pytest.raises(ValueError, match="numa=9 must be 1 to 8"):
        parse_shape("sockets=2,numa=9")
    with pytest.raises(ValueError, match="more than any machine has"):
        Shape().topology(1_000_000_000)
    assert len(Shape().topology(8192).cpus) == 8192


@pytest.mark.parametrize("options", [{}, {"prefers_uncore": True}, {"spreads": True}])
def test_many_caches_and_cores_are_no_reason_to_look_at_all_for_each(options: dict[str, bool]) -> None:
    def take(size: int) -> None:
        machine = Shape(caches=max(size, 1), threads=2).topology(8 * max(size, 1))
        take_packed(machine, {cpu for cpu in machine.cpus if cpu % 7}, 4 * size + 1, **options)

    assert growth(take, 30) <= 2.5
