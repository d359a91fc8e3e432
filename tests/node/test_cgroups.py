"""What must hold for the cgroups of any node, whatever the recorded ones are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.qos import BEST_EFFORT, BURSTABLE
from fairlead.node.cgroups.containers import ContainerHost, container_values
from fairlead.node.cgroups.cpu import (
    MAX_SHARES,
    MAX_WEIGHT,
    MIN_SHARES,
    agent_weight,
    quota_micros,
    runtime_weight,
    shares,
)
from fairlead.node.cgroups.files import files, huge_page_size
from fairlead.node.cgroups.names import (
    CgroupDriver,
    container_path,
    kubepods,
    parse_cgroup,
    path_of,
    pod_cgroup,
    qos_cgroup,
)
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.cgroups.qos_tree import ClassRequests, QosReservation, class_requests, qos_values, spared
from fairlead.node.cgroups.values import CgroupSettings, CgroupValues
from fairlead.node.configuration.load import configure
from fairlead.node.memory import memory_usage

GI = 2**30
DEFAULT = CgroupSettings()
milli = st.integers(0, 2**20)
periods = st.integers(1_000, 1_000_000)
memory = st.integers(0, 64 * GI)


def container(name: str = "main", **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def spec(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containers": list(containers), **more}


@given(milli, milli)
def test_more_cpu_never_weighs_less(least: int, extra: int) -> None:
    """S0-56, S0-57."""
    less, greater = shares(least), shares(least + extra)
    assert MIN_SHARES <= less <= greater <= MAX_SHARES
    assert 1 <= agent_weight(less) <= agent_weight(greater) <= MAX_WEIGHT
    assert 1 <= runtime_weight(less) <= runtime_weight(greater) <= MAX_WEIGHT


@given(st.integers(1, 2**20), milli, periods)
def test_a_quota_grows_with_the_limit_and_has_a_floor(limit: int, extra: int, period: int) -> None:
    """S0-59."""
    assert 1000 <= quota_micros(limit, period) <= quota_micros(limit + extra, period)
    assert quota_micros(limit, period) in (1000, limit * period // 1000)
    assert quota_micros(0, period) == 0


def test_the_kernel_s_default_weight_is_one_cpu_to_the_runtime_but_not_to_the_kubelet() -> None:
    """S0-57."""
    assert (runtime_weight(1024), agent_weight(1024)) == (100, 39)


def test_two_guaranteed_pods_and_burstable_of_two_cpus_weigh_39_39_79() -> None:
    """S1-13."""
    guaranteed = spec(container(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "1", "memory": "1Gi"}))
    burstable = spec(container(requests={"cpu": "2"}))
    classes = qos_values(class_requests([guaranteed, guaranteed, burstable]), DEFAULT)
    assert (pod_values(guaranteed, DEFAULT).cpu_weight, classes[BURSTABLE].cpu_weight) == (39, 79)


def test_a_declared_limit_is_enforced_and_none_is_asked_for() -> None:
    """S0-60: `cpu-cfs-quota` makes nobody declare a limit."""
    unlimited = spec(container(requests={"cpu": "100m"}))
    host = ContainerHost(memory_capacity=8 * GI)
    assert "cpu.max" not in files(pod_values(unlimited, DEFAULT))
    assert container_values({"spec": unlimited}, DEFAULT, host)["main"].cpu_quota == 0


def test_no_limit_is_enforced_with_quotas_switched_off() -> None:
    """S0-61."""
    limited = spec(container(limits={"cpu": "1"}, requests={"cpu": "1"}))
    settings = CgroupSettings(enforces_cpu_limits=False)
    values = container_values({"spec": limited}, settings, ContainerHost(memory_capacity=8 * GI))["main"]
    assert (values.cpu_quota, values.cpu_period) == (0, 0)
    assert files(pod_values(limited, settings))["cpu.max"] == "max 100000"


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 8)), min_size=1, max_size=5))
def test_a_pod_has_room_for_what_its_containers_may_use(limits: list[tuple[int, int]]) -> None:
    """S1-31: quotas and memory limits add up."""
    containers = [
        container(f"c{index}", limits={"cpu": f"{cpu}m", "memory": f"{gi}Gi"}) for index, (cpu, gi) in enumerate(limits)
    ]
    pod = pod_values(spec(*containers), DEFAULT)
    each = container_values({"spec": spec(*containers)}, DEFAULT, ContainerHost(memory_capacity=64 * GI)).values()
    assert pod.memory_limit == sum(values.memory_limit for values in each)
    assert pod.cpu_quota == quota_micros(sum(cpu for cpu, _ in limits), 100_000)
    assert pod.cpu_quota <= sum(values.cpu_quota for values in each)


@given(st.lists(st.integers(0, 4000), max_size=8))
def test_burstable_weighs_as_much_as_its_pods_request(requests: list[int]) -> None:
    """S1-12."""
    pods = [spec(container(requests={"cpu": f"{request}m", "memory": "1Mi"})) for request in requests]
    classes = qos_values(class_requests(pods), DEFAULT)
    assert classes[BURSTABLE].cpu_shares == shares(sum(requests))
    assert classes[BEST_EFFORT].cpu_shares == MIN_SHARES


@given(memory, memory, memory, st.integers(0, 100), st.integers(0, 100))
def test_the_more_is_reserved_the_less_lower_classes_may_use(
    allocatable: int, guaranteed: int, burstable: int, percent: int, other_percent: int
) -> None:
    """S1-03, S1-04, S1-10: within the allocatable, the lower the class the less."""
    requests = ClassRequests(0, burstable, guaranteed)
    less, more = (
        qos_values(requests, DEFAULT, QosReservation(percent, allocatable))
        for percent in sorted((percent, other_percent))
    )
    if allocatable == 0:
        assert less[BURSTABLE].memory_limit is None
        return
    for class_ in (BURSTABLE, BEST_EFFORT):
        assert (more[class_].memory_limit or 0) <= (less[class_].memory_limit or 0) <= allocatable
    assert (less[BEST_EFFORT].memory_limit or 0) <= (less[BURSTABLE].memory_limit or 0)


def test_the_lowest_class_makes_room_first() -> None:
    """S1-08."""
    assert list(qos_values(ClassRequests(), CgroupSettings(has_memory_qos=True))) == [
        BEST_EFFORT,
        BURSTABLE,
        "Guaranteed",
    ]


@pytest.mark.parametrize(
    ("percent", "burstable", "best_effort"),
    [(0, 14 * GI, 14 * GI), (50, 12884901888, 11811160064), (100, 10 * GI, 8 * GI)],
)
def test_reservations_are_those_of_the_document(percent: int, burstable: int, best_effort: int) -> None:
    """S1-06: 14Gi, of which Guaranteed pods request 4Gi and Burstable ones 2Gi."""
    classes = qos_values(ClassRequests(0, 2 * GI, 4 * GI), DEFAULT, QosReservation(percent, 14 * GI))
    assert classes[BURSTABLE].memory_limit == burstable
    assert classes[BEST_EFFORT].memory_limit == best_effort


@given(memory, memory)
def test_nothing_is_killed_by_lowering_a_limit(limit: int, usage: int) -> None:
    """S1-09."""
    guarded = spared(CgroupValues(memory_limit=limit), usage).memory_limit
    assert guarded == max(limit, usage)
    assert spared(CgroupValues(), usage).memory_limit is None


parts = st.lists(st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True), min_size=1, max_size=5)


@given(parts, st.sampled_from(CgroupDriver))
def test_a_cgroup_is_found_again_by_its_path(name: list[str], driver: CgroupDriver) -> None:
    """S1-30."""
    path = path_of(tuple(name), driver)
    assert path.count("/") == len(name)
    assert parse_cgroup(path, driver) == tuple(name)


def test_a_container_is_in_the_cgroup_of_its_pod() -> None:
    """S1-30, S4-02."""
    pod = pod_cgroup(qos_cgroup(kubepods(), BURSTABLE), "0-1")
    assert container_path(pod, "abc", CgroupDriver.CGROUPFS) == "/kubepods/burstable/pod0-1/abc"
    assert container_path(pod, "abc", CgroupDriver.SYSTEMD) == (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0_1.slice/cri-containerd-abc.scope"
    )


def test_without_classes_pods_are_in_the_root() -> None:
    """S0-109."""
    assert path_of(kubepods("/", per_qos=False), CgroupDriver.CGROUPFS) == "/"


def test_the_same_values_have_other_files_on_cgroup_v1() -> None:
    """S1-29, S4-04."""
    values = CgroupValues(
        cpu_shares=512,
        cpu_quota=50000,
        cpu_period=100000,
        memory_limit=GI,
        pids_limit=64,
        huge_page_limits={2 * 2**20: 4 * 2**20},
        unified={"memory.min": "1"},
    )
    assert files(values, 1) == {
        "cpu.shares": "512",
        "cpu.cfs_quota_us": "50000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": "1073741824",
        "pids.max": "64",
        "hugetlb.2MB.limit_in_bytes": "4194304",
    }
    assert files(values, 2) == {
        "cpu.weight": "20",
        "cpu.max": "50000 100000",
        "memory.max": "1073741824",
        "pids.max": "64",
        "hugetlb.2MB.max": "4194304",
        "memory.min": "1",
    }


@pytest.mark.parametrize(("limit", "text"), [(-1, "max"), (0, "1"), (5, "5")])
def test_there_is_always_room_for_one_process(limit: int, text: str) -> None:
    assert files(CgroupValues(pids_limit=limit))["pids.max"] == text


@pytest.mark.parametrize(("size", "text"), [(2**21, "2MB"), (2**30, "1GB"), (64 * 2**10, "64KB"), (512, "512B")])
def test_sizes_of_pages_are_named_as_the_kernel_names_them(size: int, text: str) -> None:
    assert huge_page_size(size) == text


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40), st.sampled_from((1, 2)))
def test_what_is_available_and_the_working_set_make_the_limit(usage: int, cache: int, limit: int, version: int) -> None:
    """S3-89."""
    name = "inactive_file" if version == 2 else "total_inactive_file"
    found = memory_usage(usage, {name: cache}, limit, version)
    assert found.working_set == max(usage - cache, 0)
    assert found.available is not None
    assert (found.available + found.working_set) % 2**64 == limit


@pytest.mark.parametrize(
    ("cpu", "is_static", "quota"), [("2", True, None), ("2", False, 200_000), ("1500m", True, 150_000)]
)
def test_who_has_cpus_to_himself_has_no_quota_besides(cpu: str, is_static: bool, quota: int | None) -> None:
    configured = configure({"cpuManagerPolicy": "static" if is_static else "none"})
    settings = CgroupSettings.of(configured.configuration, configured.gates)
    amounts = {"cpu": cpu, "memory": "1Gi"}
    wanted = spec(container(requests=amounts, limits=amounts))
    values = container_values({"metadata": {}, "spec": wanted}, settings, ContainerHost(8 * GI))["main"]
    assert values.cpu_quota == (quota or 0)
    assert pod_values(wanted, settings).cpu_quota == (quota or -1)


def test_a_gate_brings_the_quota_back() -> None:
    document = {"cpuManagerPolicy": "static", "featureGates": {"DisableCPUQuotaWithExclusiveCPUs": False}}
    configured = configure(document)
    settings = CgroupSettings.of(configured.configuration, configured.gates)
    amounts = {"cpu": "2", "memory": "1Gi"}
    assert pod_values(spec(container(requests=amounts, limits=amounts)), settings).cpu_quota == 200_000
