"""What a node agent makes of its file and flags: the kubelet's own answers, row by row."""

from __future__ import annotations

from typing import Any

from fairlead.golang.durations import format_seconds
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.load import configure
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.startup import start_settings
from tests.node.golden import Row, expected, rows

PLAIN = {
    "cgroupDriver": "cgroup_driver",
    "cgroupsPerQOS": "cgroups_per_qos",
    "cpuCFSQuota": "cpu_cfs_quota",
    "evictionMaxPodGracePeriod": "eviction_max_pod_grace_period",
    "failSwapOn": "fail_swap_on",
    "imageGCHighThresholdPercent": "image_gc_high_threshold_percent",
    "imageGCLowThresholdPercent": "image_gc_low_threshold_percent",
    "localStorageCapacityIsolation": "local_storage_capacity_isolation",
    "maxPods": "max_pods",
    "memoryReservationPolicy": "memory_reservation_policy",
    "memoryThrottlingFactor": "memory_throttling_factor",
    "nodeLeaseDurationSeconds": "node_lease_duration_seconds",
    "oomScoreAdj": "oom_score_adj",
    "podPidsLimit": "pod_pids_limit",
    "podsPerCore": "pods_per_core",
    "singleProcessOOMKill": "single_process_oom_kill",
    "swapBehavior": "swap_behavior",
}
DURATIONS = {
    "cpuCFSQuotaPeriod": "cpu_cfs_quota_period",
    "crashLoopBackOffMaxContainerRestartPeriod": "max_container_restart_period",
    "evictionPressureTransitionPeriod": "eviction_pressure_transition_period",
    "nodeStatusReportFrequency": "node_status_report_frequency",
    "nodeStatusUpdateFrequency": "node_status_update_frequency",
}


def effective(config: KubeletConfiguration) -> dict[str, Any]:
    values = {name: getattr(config, attribute) for name, attribute in PLAIN.items()}
    values["enforceNodeAllocatable"] = list(config.enforce_node_allocatable)
    for name, attribute in DURATIONS.items():
        seconds = getattr(config, attribute)
        values[name] = None if seconds is None else format_seconds(seconds)
    return {name: value for name, value in values.items() if value not in (None, "")}


@rows("node_config")
def test_a_configuration_is_taken_or_refused_as_by_a_kubelet(row: Row) -> None:
    """S0-59, S0-61, S1-02, S1-19, S1-20, S1-29, S4-05, S4-09, X-15."""
    try:
        configured = configure(row.get("config"), row["flags"], cgroup_version=row.get("hostCgroupVersion", 2))
        start_settings(configured.configuration, cpus=4)
    except StartupError as refusal:
        assert {"error": str(refusal)} in expected(row)
    else:
        assert {"ok": True, "effective": effective(configured.configuration)} in expected(row)
