"""A node's file and flags: which wins, what is refused, what is told of. Texts are those of kubelet 1.36."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.flags import LEGACY, parse_flags
from fairlead.node.configuration.load import DEFAULT_EVICTION_HARD, configure
from fairlead.node.configuration.settings import FLAGS, SETTINGS, KubeletConfiguration
from fairlead.node.reservations import parse_resource_list, reservations_of

INVALID = "invalid configuration: "


def of(document: dict[str, Any] | None, *flags: str) -> KubeletConfiguration:
    return configure(document, flags).configuration


def refusal(document: dict[str, Any] | None, *flags: str, cgroup_version: int = 2) -> StartupError:
    with pytest.raises(StartupError) as raised:
        configure(document, flags, cgroup_version=cgroup_version)
    return raised.value


def test_a_flag_wins_over_the_file_and_the_file_over_the_default() -> None:
    assert of({}).max_pods == 110
    assert of({"maxPods": 50}).max_pods == 50
    assert of({"maxPods": 50}, "--max-pods=20").max_pods == 20


def test_zero_in_a_file_is_the_default_and_zero_as_a_flag_is_zero() -> None:
    assert of({"maxPods": 0}).max_pods == 110
    assert of({}, "--max-pods=0").max_pods == 0
    assert of({"evictionPressureTransitionPeriod": "0s"}).eviction_pressure_transition_period == 300
    assert of({}, "--eviction-pressure-transition-period=0s").eviction_pressure_transition_period == 0


def test_hard_thresholds_have_defaults_with_a_file_only() -> None:
    """README-node.md, 2."""
    assert of({}).eviction_hard == DEFAULT_EVICTION_HARD
    assert of(None).eviction_hard == {}
    assert of({"evictionHard": {}}).eviction_hard == {}
    assert of({"evictionHard": {"memory.available": "1Gi"}}).eviction_hard == {"memory.available": "1Gi"}


def test_hard_thresholds_of_a_file_can_be_merged_with_the_defaults() -> None:
    merged = of({"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": True}).eviction_hard
    assert merged == {**DEFAULT_EVICTION_HARD, "memory.available": "1Gi"}


def test_a_map_given_as_a_flag_replaces_the_file_s_and_adds_to_earlier_flags() -> None:
    """S1-18."""
    document = {"kubeReserved": {"cpu": "1", "pid": "100"}}
    flags = ("--kube-reserved=cpu=100m, memory=1Gi", "--kube-reserved=memory=2Gi")
    assert of(document, *flags).kube_reserved == {"cpu": "100m", "memory": "2Gi"}


def test_feature_gates_of_file_and_flags_add_up() -> None:
    configured = configure(
        {"featureGates": {"MemoryQoS": True, "QOSReserved": True}}, ["--feature-gates=QOSReserved=false"]
    )
    assert configured.gates.enabled("MemoryQoS")
    assert not configured.gates.enabled("QOSReserved")


def test_a_stage_of_features_can_be_switched_as_a_whole() -> None:
    gates = configure({}, ["--feature-gates=AllAlpha=true,QOSReserved=false"]).gates
    assert gates.enabled("MemoryQoS")
    assert not gates.enabled("QOSReserved")


@pytest.mark.parametrize(
    ("gate", "error"),
    [
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("NodeSwap=false", "cannot set feature gate NodeSwap to false, feature is locked to true"),
        ("GitRepoVolumeDriver=true", "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false"),
        ("MemoryManager=true", "unrecognized feature gate: MemoryManager"),  # gone since 1.35
    ],
)
def test_a_gate_that_does_not_exist_or_is_closed_is_refused(gate: str, error: str) -> None:
    assert str(refusal({}, f"--feature-gates={gate}")) == (
        f"failed to set feature gates from initial flags-based config: {error}"
    )


def test_features_have_the_stages_of_their_version() -> None:
    gates = configure({}, ["--feature-gates=JobSuccessPolicy=true"]).gates
    on = ("RestartAllContainersOnContainerExits", "InPlacePodVerticalScalingInitContainers", "DRAExtendedResource")
    assert all(map(gates.enabled, on))
    assert not any(map(gates.enabled, ("MaxUnavailableStatefulSet", "SchedulerAsyncAPICalls", "MemoryQoS")))
    assert not configure({}, ["--feature-gates=AllBeta=false"]).gates.enabled("NodeDeclaredFeatures")


def test_what_a_file_says_in_vain_is_told_of() -> None:
    """Never ignored in silence (X-15)."""
    configured = configure({"maxPod": 5, "memorySwap": {"swap": "NoSwap"}, "qosReserved": {"memory": "50%"}})
    assert configured.warnings == (
        'strict decoding error: unknown field "maxPod", unknown field "memorySwap.swap"',
        "qosReserved (--qos-reserved) does nothing: the feature gate QOSReserved is not enabled",
    )


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (
            {"maxPods": "many"},
            "cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32",
        ),
        (
            {"maxPods": 1.5},
            "cannot unmarshal number 1.5 into Go struct field KubeletConfiguration.maxPods of type int32",
        ),
        (
            {"maxPods": 2**31},
            "cannot unmarshal number 2147483648 into Go struct field KubeletConfiguration.maxPods of type int32",
        ),
        (
            {"failSwapOn": "no"},
            "cannot unmarshal string into Go struct field KubeletConfiguration.failSwapOn of type bool",
        ),
        (
            {"kubeReserved": {"cpu": 1}},
            "cannot unmarshal number into Go struct field KubeletConfiguration.kubeReserved of type string",
        ),
        (
            {"enforceNodeAllocatable": "pods"},
            "cannot unmarshal string into Go struct field KubeletConfiguration.enforceNodeAllocatable of type []string",
        ),
        (
            {"memorySwap": {"swapBehavior": 1}},
            "cannot unmarshal number into Go struct field "
            "MemorySwapConfiguration.memorySwap.swapBehavior of type string",
        ),
        ({"cpuCFSQuotaPeriod": 5}, "cannot unmarshal number into Go value of type string"),
    ],
)
def test_a_value_of_another_type_is_refused_in_gos_words(document: dict[str, Any], error: str) -> None:
    found = refusal(document)
    assert found.stage is Stage.FILE
    assert str(found) == f"failed to load Kubelet config file <config file>, error failed to decode: json: {error}"


def test_a_document_of_another_kind_is_refused() -> None:
    assert 'no kind "KubeletConfiguration" is registered for version "v1"' in str(refusal({"apiVersion": "v1"}))
    assert of({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}) == of({})


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--max-pods"], "flag needs an argument: --max-pods"),
        (["--=5"], "bad flag syntax: --=5"),
        (["--max-pods=x"], 'invalid argument "x" for "--max-pods" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (
            ["--max-pods=2147483648"],
            'invalid argument "2147483648" for "--max-pods" flag: '
            'strconv.ParseInt: parsing "2147483648": value out of range',
        ),
        (
            ["--cpu-cfs-quota=maybe"],
            'invalid argument "maybe" for "--cpu-cfs-quota" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            ["--cpu-cfs-quota-period=5"],
            'invalid argument "5" for "--cpu-cfs-quota-period" flag: time: missing unit in duration "5"',
        ),
        (
            ["--feature-gates=MemoryQoS"],
            'invalid argument "MemoryQoS" for "--feature-gates" flag: malformed pair, expect string=bool',
        ),
        (
            ["--feature-gates=MemoryQoS=on"],
            'invalid argument "MemoryQoS=on" for "--feature-gates" flag: '
            'invalid value of MemoryQoS: on, err: strconv.ParseBool: parsing "on": invalid syntax',
        ),
    ],
)
def test_a_flag_that_cannot_be_read_is_refused(flags: list[str], error: str) -> None:
    found = refusal({}, *flags)
    assert found.stage is Stage.FLAGS
    assert str(found) == f"failed to parse kubelet flag: {error}"


def test_a_flag_is_written_as_pflag_allows() -> None:
    flags = parse_flags(["--max_pods", "7", "--kernel-memcg-notification", "--enforce-node-allocatable=pods,none"])
    assert flags == {"max_pods": 7, "kernel_memcg_notification": True, "enforce_node_allocatable": ("pods", "none")}
    assert parse_flags(["--enforce-node-allocatable="]) == {"enforce_node_allocatable": ()}


@pytest.mark.parametrize("legacy", LEGACY)
def test_a_flag_of_former_times_is_refused_with_what_to_write_today(legacy: str) -> None:
    """S1-02, S3-92, X-15."""
    found = refusal({}, f"--{legacy}=true")
    assert str(found) == f"failed to parse kubelet flag: unknown flag: --{legacy}"
    assert found.hint == LEGACY[legacy]


def test_a_flag_that_has_no_use_here_is_refused_as_such() -> None:
    assert refusal({}, "--kubeconfig=/etc/kubeconfig").hint == "a kubelet has it, but it says nothing of resources"


def test_an_option_may_have_commas() -> None:
    flags = ("--cpu-manager-policy-options=a=1,2", "--cpu-manager-policy-options=b=3")
    assert of({}, *flags).cpu_manager_policy_options == {"a": "1,2", "b": "3"}


def test_arguments_that_are_no_flags_are_refused() -> None:
    assert str(refusal({}, "serve")) == "unknown command serve"


def test_every_flag_of_the_documents_is_known() -> None:
    """X-15, and issue 15 "Flags"."""
    documented = {
        "kube-reserved", "system-reserved", "eviction-hard", "eviction-soft", "eviction-soft-grace-period",
        "eviction-minimum-reclaim", "eviction-pressure-transition-period", "eviction-max-pod-grace-period",
        "kernel-memcg-notification", "qos-reserved", "enforce-node-allocatable", "kube-reserved-cgroup",
        "system-reserved-cgroup", "runtime-cgroups", "cpu-cfs-quota", "max-pods", "feature-gates", "cgroups-per-qos",
        "node-status-update-frequency",
    }  # fmt: skip
    assert documented <= set(FLAGS)


def test_no_two_settings_share_a_name_or_flag() -> None:
    names = [setting.name for setting in SETTINGS if setting.name]
    flags = [setting.flag for setting in SETTINGS if setting.flag]
    assert len(names) == len(set(names))
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (
            {"systemCgroups": "/system"},
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
        ),
        ({"eventRecordQPS": -1}, "eventRecordQPS (--event-qps) -1 must not be a negative number"),
        ({"oomScoreAdj": -1001}, "oomScoreAdj (--oom-score-adj) -1001 must be between -1000 and 1000, inclusive"),
        ({"readOnlyPort": 65536}, "readOnlyPort (--read-only-port) 65536 must be between 0 and 65535, inclusive"),
        (
            {"imageMinimumGCAge": "2h", "imageMaximumGCAge": "1h"},
            "imageMaximumGCAge 1h0m0s must be greater than imageMinimumGCAge 2h0m0s",
        ),
        ({"maxParallelImagePulls": 0}, "maxParallelImagePulls 0 must be a positive number"),
        (
            {"maxParallelImagePulls": 4, "serializeImagePulls": True},
            "maxParallelImagePulls cannot be larger than 1 unless "
            "SerializeImagePulls (--serialize-image-pulls) is set to false",
        ),
        (
            {"topologyManagerPolicy": "any"},
            'topologyManagerPolicy (--topology-manager-policy) "any" must be one '
            'of: ["none" "best-effort" "restricted" "single-numa-node"]',
        ),
        (
            {"shutdownGracePeriodCriticalPods": "30s", "shutdownGracePeriod": "10s"},
            "shutdownGracePeriodCriticalPods {30s} must be <= shutdownGracePeriod {10s}",
        ),
        ({"shutdownGracePeriod": "500ms"}, "shutdownGracePeriod {500ms} must be either zero or otherwise >= 1 sec"),
        (
            {"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}},
            "CrashLoopBackOff.MaxContainerRestartPeriod (got: 301 seconds) must be set between 1s and 300s",
        ),
        (
            {"hairpinMode": "loop"},
            'option "loop" specified for hairpinMode (--hairpin-mode). Valid '
            'options are "none", "hairpin-veth" or "promiscuous-bridge"',
        ),
        (
            {"reservedSystemCPUs": "0-1", "kubeReservedCgroup": "/kube"},
            "can't use reservedSystemCPUs (--reserved-cpus) with "
            "systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
        ),
        (
            {"reservedSystemCPUs": "3-1"},
            'unable to parse reservedSystemCPUs (--reserved-cpus) 3-1, error: invalid range "3-1" (3 > 1)',
        ),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]},
            'the limit type "cpu" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted',
        ),
        (
            {"memoryReservationPolicy": "All"},
            'option "All" specified for memoryReservationPolicy. Valid options are "None" or "TieredReservation"',
        ),
        (
            {"registerWithTaints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]},
            "taint.TimeAdded is not nil",
        ),
        (
            {
                "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
                "preloadedImagesVerificationAllowlist": ["host/team/*", "host/app:1"],
            },
            "invalid image pattern in `preloadedImagesVerificationAllowlist`: "
            "neither tag nor digest is accepted in an image reference: host/app:1",
        ),
        (
            {
                "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
                "preloadedImagesVerificationAllowlist": ["host/*/app"],
            },
            "invalid image pattern in `preloadedImagesVerificationAllowlist`: "
            "not a valid wildcard pattern, only patterns ending with '/*' are allowed: host/*/app",
        ),
        ({"userNamespaces": {"idsPerPod": 65537}}, "userNamespaces.idsPerPod must be a multiple of 65536"),
        ({"containerLogMaxFiles": 1}, "containerLogMaxFiles must be greater than 1"),
        ({"podLogsDir": "/var/../log"}, 'pod logs path "/var/../log" must be normalized'),
        (
            {
                "featureGates": {"KubeletEnsureSecretPulledImages": False},
                "imagePullCredentialsVerificationPolicy": "NeverVerify",
            },
            "`imagePullCredentialsVerificationPolicy` must not be set if "
            "KubeletEnsureSecretPulledImages feature gate is not enabled",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(document: dict[str, Any], error: str) -> None:
    found = refusal(document)
    assert found.stage is Stage.VALIDATION
    assert str(found) == INVALID + error


def test_a_taint_that_is_none_is_refused() -> None:
    taints = [{"key": "a b", "effect": "NoSchedule"}, {"key": "a", "value": "v", "effect": "No"}]
    found = refusal({"registerWithTaints": taints})
    assert str(found) == "[invalid taint: {a b  NoSchedule <nil>}, invalid taint: {a v No <nil>}]"


def test_everything_that_is_wrong_is_told_at_once() -> None:
    assert str(refusal({"nodeLeaseDurationSeconds": -1}, "--max-pods=-1")) == (
        f"[{INVALID}nodeLeaseDurationSeconds must be greater than 0, "
        f"{INVALID}maxPods (--max-pods) -1 must not be a negative number]"
    )


def test_a_whole_container_dies_unless_it_is_said_otherwise() -> None:
    """S0-115, S4-09: on cgroup v1 there is no other way than one process."""
    assert not of({}).is_single_process_oom_kill(2)
    assert of({}).is_single_process_oom_kill(1)
    assert of({"singleProcessOOMKill": True}).is_single_process_oom_kill(2)
    forced = {"singleProcessOOMKill": False, "failCgroupV1": False}
    assert str(refusal(forced, cgroup_version=1)) == (
        f"{INVALID}singleProcessOOMKill must not be explicitly set to false when using cgroup v1"
    )


def test_status_is_reported_as_often_as_it_is_updated_if_that_is_said() -> None:
    assert of({"nodeStatusUpdateFrequency": "20s"}).node_status_report_frequency == 20
    both = {"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "1m"}
    assert of(both).node_status_report_frequency == 60


def test_reserved_cpus_stand_for_the_cpu_of_both_reservations() -> None:
    config = of({"kubeReserved": {"cpu": "1", "memory": "1Gi"}, "reservedSystemCPUs": "0-1,3"})
    reservations = reservations_of(config, cpus=4)
    assert reservations.kube == parse_resource_list({"memory": "1Gi"})
    assert reservations.system == parse_resource_list({"cpu": "3"})


def test_cpus_that_the_machine_does_not_have_cannot_be_reserved() -> None:
    with pytest.raises(ValueError, match=r"^reserved-cpus: 2-4 is not a subset of online-cpus: 0-3$"):
        reservations_of(of({}, "--reserved-cpus=2-4"), cpus=4)


def test_nothing_negative_can_be_reserved() -> None:
    with pytest.raises(ValueError, match=r'^--kube-reserved value failed to parse: resource quantity for "cpu" cannot'):
        reservations_of(of({}, "--kube-reserved=cpu=-1"), cpus=4)


@given(st.sets(st.integers(0, 60)))
def test_a_list_of_cpus_counts_each_once(cpus: set[int]) -> None:
    listed = parse_cpu_set(",".join(f"{cpu}-{cpu + 1}" for cpu in cpus))
    every = cpus | {cpu + 1 for cpu in cpus}
    assert listed.size == len(every)
    assert listed.is_within(max(every, default=0) + 1)
    assert not every or not listed.is_within(max(every))
