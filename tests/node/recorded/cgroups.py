"""The values of cgroups, and the files that they come to: the kubelet's own answers, row by row."""

from __future__ import annotations

from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from fairlead.api.quantity import units
from fairlead.node.cgroups.containers import ContainerHost, ContainerValues, container_values
from fairlead.node.cgroups.cpu import agent_weight, quota_micros, runtime_weight, shares
from fairlead.node.cgroups.names import CgroupDriver, kubepods, path_of, pod_cgroup, qos_cgroup
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.cgroups.qos_tree import QosReservation, class_requests, qos_values, spared
from fairlead.node.cgroups.values import CgroupSettings
from fairlead.node.configuration.decode import decode
from fairlead.node.configuration.feature_gates import FeatureGates
from fairlead.node.configuration.flags import parse_flags
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.configuration.value_types import STRING_MAP
from fairlead.node.memory import memory_usage
from fairlead.node.reservations import parse_qos_reserved
from tests.node.cgroup_rows import shown
from tests.node.golden import Row, rows

FIELDS = ("cpuCFSQuota", "cpuCFSQuotaPeriod", "memoryReservationPolicy", "memoryThrottlingFactor")


def settings_of(row: Row, *gates: str) -> CgroupSettings:
    """From the fields of a configuration that a row states, whether or not they would be valid together."""
    stated, _ = decode({name: row[name] for name in FIELDS if name in row})
    config = KubeletConfiguration(**stated, swap_behavior=row.get("swapBehavior", ""))
    enabled = parse_flags([f"--feature-gates={gate}" for gate in gates]).get("feature_gates", {})
    return CgroupSettings.of(config, FeatureGates().with_stated(enabled), row.get("cgroupVersion", 2))


@rows("cpu_conversions")
def test_milli_cores_become_shares_weights_and_quotas(row: Row) -> None:
    """S0-56, S0-57, S0-59."""
    milli = row["milliCPU"]
    assert {
        "cpuShares": shares(milli),
        "weightWrittenByNodeAgent": agent_weight(shares(milli)),
        "weightWrittenByRuntime": runtime_weight(shares(milli)),
        "quotaByPeriod": {period: quota_micros(milli, int(period)) for period in row["expect"]["quotaByPeriod"]},
    } == row["expect"]


@rows("cgroup_pod")
def test_the_cgroup_of_a_pod_is_the_kubelet_s(row: Row) -> None:
    """S0-59 to S0-62, S1-31, S4-05."""
    spec = row["pod"]["spec"]
    settings = settings_of(row, *(["MemoryQoS=true"] if row.get("memoryQoS") else []))
    assert {**shown(pod_values(spec, settings)), "qosClass": qos_class(spec)} == row["expect"]


def sent(values: ContainerValues) -> Row:
    found: Row = {
        "cpuShares": values.cpu_shares,
        "cpuQuota": values.cpu_quota,
        "cpuPeriod": values.cpu_period,
        "memoryLimitInBytes": values.memory_limit,
        "oomScoreAdj": values.oom_score_adj,
        "runtimeCpuWeight": values.cpu_weight,
        "memorySwapLimitInBytes": values.memory_swap_limit or None,
        "unified": dict(values.unified) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


@rows("cgroup_container")
def test_a_container_is_sent_to_the_runtime_as_by_the_kubelet(row: Row) -> None:
    """S0-56, S0-59 to S0-63, S4-05 to S4-10."""
    node = row["node"]
    memory = node.get("allocatable", {}).get("memory")
    host = ContainerHost(
        memory_capacity=units(node["memoryCapacity"]),
        cgroup_version=node["cgroupVersion"],
        has_swap_controller=node["swapController"],
        swap_capacity=units(node.get("swapCapacity", "0")),
        is_single_process_oom_kill=node["singleProcessOOMKill"],
        allocatable_memory=None if memory is None else units(memory),
    )
    values = container_values(row["pod"], settings_of(node, *row.get("featureGates", ())), host)
    assert {name: sent(container) for name, container in values.items()} == row["expect"]


CGROUPS = {GUARANTEED: "kubepods", BURSTABLE: "kubepods/burstable", BEST_EFFORT: "kubepods/besteffort"}


@rows("cgroup_qos")
def test_the_classes_share_a_node_as_by_the_kubelet(row: Row) -> None:
    """S1-02 to S1-10, S1-12 to S1-14, S4-05."""
    gates = row.get("featureGates", [])
    reservation = None
    try:
        percent = parse_qos_reserved(STRING_MAP.parse(row.get("qosReserved", ""), None))
    except ValueError as refusal:
        assert {"error": str(refusal)} == row["expect"]
        return
    if percent and "QOSReserved=true" in gates:
        reservation = QosReservation(percent["memory"], units(row.get("allocatable", {}).get("memory", "0")))
    requests = class_requests(pod["spec"] for pod in row["pods"])
    values = dict(qos_values(requests, settings_of(row, *gates), reservation))
    if "failFirstWrite" in row:
        usage = {class_: units(row["usage"].get(f"/{path}", "0")) for class_, path in CGROUPS.items()}
        values = {class_: spared(found, usage[class_]) for class_, found in values.items()}
    assert {CGROUPS[class_]: shown(found) for class_, found in values.items()} == row["expect"]


@rows("cgroup_names")
def test_cgroups_have_the_kubelet_s_names(row: Row) -> None:
    """S1-05, S1-30, S4-02."""
    spec = row["pod"]["spec"]
    root = kubepods(row.get("cgroupRoot", "/"))
    parent = qos_cgroup(root, qos_class(spec))
    names = {"kubepods": root, "parent": parent, "pod": pod_cgroup(parent, row["podUID"])}
    found: Row = {
        driver.value: {level: path_of(name, driver) for level, name in names.items()} for driver in CgroupDriver
    }
    pids = pod_values(spec, CgroupSettings(pod_pids_limit=row.get("podPidsLimit", -1))).pids_limit
    found |= {"pidsLimit": pids} if pids is not None else {}
    assert {**found, "qosClass": qos_class(spec)} == row["expect"]


@rows("memory_signal")
def test_memory_is_reckoned_from_the_kernel_s_counters(row: Row) -> None:
    """S3-89."""
    stat = {name: units(amount) for name, amount in row["stat"].items()}
    limit = units(row["limit"]) if "limit" in row else None
    found = memory_usage(units(row["usage"]), stat, limit, row["cgroupVersion"])
    figures: Row = {"usageBytes": found.usage, "workingSetBytes": found.working_set, "rssBytes": found.rss}
    assert figures | ({} if found.available is None else {"availableBytes": found.available}) == row["expect"]
