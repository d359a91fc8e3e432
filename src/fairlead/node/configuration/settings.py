"""Every setting of a KubeletConfiguration v1beta1 (1.36): its name in a file, its flag, its type and its default.

This is the whole list, though much of it means nothing to a simulated node: a setting that is not here is told of, and
one that is here is checked, so that a configuration that works on a real node is neither refused nor misread.
Names of nested settings have dots. Durations are in seconds.
Sources: k8s.io/kubelet/config/v1beta1, pkg/kubelet/apis/config/v1beta1/defaults.go, cmd/kubelet/app/options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.node.configuration.value_types import (
    BOOL,
    BOOL_MAP,
    DURATION,
    FLOAT64,
    INT32,
    INT64,
    NOTHING,
    OBJECT,
    OBJECTS,
    OPTIONS,
    STRING,
    STRING_MAP,
    STRINGS,
    THRESHOLDS,
    ValueType,
)


@dataclass(frozen=True, slots=True)
class Setting:
    attribute: str
    #: In a configuration file; empty for what only a flag says.
    name: str
    type: ValueType
    default: Any
    #: Go tells an absent value from zero; of the others, zero means the default.
    is_pointer: bool
    flag: str

    def is_unset(self, value: Any) -> bool:
        return value is None or (not self.is_pointer and value == self.type.zero)


def setting(name: str, value_type: ValueType, default: Any, *, is_pointer: bool = False, flag: str = "") -> Any:
    metadata = {"name": name, "type": value_type, "default": default, "is_pointer": is_pointer, "flag": flag}
    return field(default_factory=lambda: default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfiguration:
    enable_server: bool = setting("enableServer", BOOL, True, is_pointer=True, flag="enable-server")
    static_pod_path: str = setting("staticPodPath", STRING, "", flag="pod-manifest-path")
    pod_logs_dir: str = setting("podLogsDir", STRING, "/var/log/pods")
    sync_frequency: float = setting("syncFrequency", DURATION, 60.0, flag="sync-frequency")
    file_check_frequency: float = setting("fileCheckFrequency", DURATION, 20.0, flag="file-check-frequency")
    http_check_frequency: float = setting("httpCheckFrequency", DURATION, 20.0, flag="http-check-frequency")
    static_pod_url: str = setting("staticPodURL", STRING, "", flag="manifest-url")
    static_pod_url_header: Mapping[str, Any] = setting("staticPodURLHeader", OBJECT, NOTHING)
    address: str = setting("address", STRING, "0.0.0.0", flag="address")
    port: int = setting("port", INT32, 10250, flag="port")
    read_only_port: int = setting("readOnlyPort", INT32, 0, flag="read-only-port")
    tls_cert_file: str = setting("tlsCertFile", STRING, "", flag="tls-cert-file")
    tls_private_key_file: str = setting("tlsPrivateKeyFile", STRING, "", flag="tls-private-key-file")
    tls_cipher_suites: tuple[str, ...] = setting("tlsCipherSuites", STRINGS, (), flag="tls-cipher-suites")
    tls_curve_preferences: tuple[Obj, ...] = setting("tlsCurvePreferences", OBJECTS, ())
    tls_min_version: str = setting("tlsMinVersion", STRING, "", flag="tls-min-version")
    rotate_certificates: bool = setting("rotateCertificates", BOOL, False, flag="rotate-certificates")
    server_tls_bootstrap: bool = setting("serverTLSBootstrap", BOOL, False, flag="rotate-server-certificates")
    anonymous_auth: bool = setting(
        "authentication.anonymous.enabled", BOOL, False, is_pointer=True, flag="anonymous-auth"
    )
    webhook_authentication: bool = setting(
        "authentication.webhook.enabled", BOOL, True, is_pointer=True, flag="authentication-token-webhook"
    )
    webhook_cache_ttl: float = setting(
        "authentication.webhook.cacheTTL", DURATION, 120.0, flag="authentication-token-webhook-cache-ttl"
    )
    client_ca_file: str = setting("authentication.x509.clientCAFile", STRING, "", flag="client-ca-file")
    authorization_mode: str = setting("authorization.mode", STRING, "Webhook", flag="authorization-mode")
    webhook_authorized_ttl: float = setting(
        "authorization.webhook.cacheAuthorizedTTL", DURATION, 300.0, flag="authorization-webhook-cache-authorized-ttl"
    )
    webhook_unauthorized_ttl: float = setting(
        "authorization.webhook.cacheUnauthorizedTTL",
        DURATION,
        30.0,
        flag="authorization-webhook-cache-unauthorized-ttl",
    )
    registry_pull_qps: int = setting("registryPullQPS", INT32, 5, is_pointer=True, flag="registry-qps")
    registry_burst: int = setting("registryBurst", INT32, 10, flag="registry-burst")
    image_pull_credentials_verification_policy: str = setting("imagePullCredentialsVerificationPolicy", STRING, "")
    preloaded_images_verification_allowlist: tuple[str, ...] = setting(
        "preloadedImagesVerificationAllowlist", STRINGS, ()
    )
    event_record_qps: int = setting("eventRecordQPS", INT32, 50, is_pointer=True, flag="event-qps")
    event_burst: int = setting("eventBurst", INT32, 100, flag="event-burst")
    enable_debugging_handlers: bool = setting(
        "enableDebuggingHandlers", BOOL, True, is_pointer=True, flag="enable-debugging-handlers"
    )
    enable_contention_profiling: bool = setting("enableContentionProfiling", BOOL, False, flag="contention-profiling")
    healthz_port: int = setting("healthzPort", INT32, 10248, is_pointer=True, flag="healthz-port")
    healthz_bind_address: str = setting("healthzBindAddress", STRING, "127.0.0.1", flag="healthz-bind-address")
    oom_score_adj: int = setting("oomScoreAdj", INT32, -999, is_pointer=True, flag="oom-score-adj")
    cluster_domain: str = setting("clusterDomain", STRING, "", flag="cluster-domain")
    cluster_dns: tuple[str, ...] = setting("clusterDNS", STRINGS, (), flag="cluster-dns")
    streaming_connection_idle_timeout: float = setting(
        "streamingConnectionIdleTimeout", DURATION, 4 * 3600.0, flag="streaming-connection-idle-timeout"
    )
    node_status_update_frequency: float = setting(
        "nodeStatusUpdateFrequency", DURATION, 10.0, flag="node-status-update-frequency"
    )
    node_status_report_frequency: float = setting("nodeStatusReportFrequency", DURATION, 300.0)
    node_lease_duration_seconds: int = setting("nodeLeaseDurationSeconds", INT32, 40)
    image_minimum_gc_age: float = setting("imageMinimumGCAge", DURATION, 120.0, flag="minimum-image-ttl-duration")
    image_maximum_gc_age: float = setting("imageMaximumGCAge", DURATION, 0.0)
    image_gc_high_threshold_percent: int = setting(
        "imageGCHighThresholdPercent", INT32, 85, is_pointer=True, flag="image-gc-high-threshold"
    )
    image_gc_low_threshold_percent: int = setting(
        "imageGCLowThresholdPercent", INT32, 80, is_pointer=True, flag="image-gc-low-threshold"
    )
    volume_stats_agg_period: float = setting("volumeStatsAggPeriod", DURATION, 60.0, flag="volume-stats-agg-period")
    kubelet_cgroups: str = setting("kubeletCgroups", STRING, "", flag="kubelet-cgroups")
    system_cgroups: str = setting("systemCgroups", STRING, "", flag="system-cgroups")
    cgroup_root: str = setting("cgroupRoot", STRING, "", flag="cgroup-root")
    cgroups_per_qos: bool = setting("cgroupsPerQOS", BOOL, True, is_pointer=True, flag="cgroups-per-qos")
    cgroup_driver: str = setting("cgroupDriver", STRING, "cgroupfs", flag="cgroup-driver")
    cpu_manager_policy: str = setting("cpuManagerPolicy", STRING, "none", flag="cpu-manager-policy")
    single_process_oom_kill: bool | None = setting("singleProcessOOMKill", BOOL, None, is_pointer=True)
    cpu_manager_policy_options: Mapping[str, str] = setting(
        "cpuManagerPolicyOptions", OPTIONS, NOTHING, flag="cpu-manager-policy-options"
    )
    cpu_manager_reconcile_period: float = setting(
        "cpuManagerReconcilePeriod", DURATION, 10.0, flag="cpu-manager-reconcile-period"
    )
    memory_manager_policy: str = setting("memoryManagerPolicy", STRING, "None", flag="memory-manager-policy")
    topology_manager_policy: str = setting("topologyManagerPolicy", STRING, "none", flag="topology-manager-policy")
    topology_manager_scope: str = setting("topologyManagerScope", STRING, "container", flag="topology-manager-scope")
    topology_manager_policy_options: Mapping[str, str] = setting(
        "topologyManagerPolicyOptions", OPTIONS, NOTHING, flag="topology-manager-policy-options"
    )
    qos_reserved: Mapping[str, str] = setting("qosReserved", STRING_MAP, NOTHING, flag="qos-reserved")
    runtime_request_timeout: float = setting("runtimeRequestTimeout", DURATION, 120.0, flag="runtime-request-timeout")
    hairpin_mode: str = setting("hairpinMode", STRING, "promiscuous-bridge", flag="hairpin-mode")
    max_pods: int = setting("maxPods", INT32, 110, flag="max-pods")
    pod_cidr: str = setting("podCIDR", STRING, "", flag="pod-cidr")
    pod_pids_limit: int = setting("podPidsLimit", INT64, -1, is_pointer=True, flag="pod-max-pids")
    resolv_conf: str = setting("resolvConf", STRING, "/etc/resolv.conf", is_pointer=True, flag="resolv-conf")
    run_once: bool = setting("runOnce", BOOL, False, flag="runonce")
    cpu_cfs_quota: bool = setting("cpuCFSQuota", BOOL, True, is_pointer=True, flag="cpu-cfs-quota")
    cpu_cfs_quota_period: float = setting(
        "cpuCFSQuotaPeriod", DURATION, 0.1, is_pointer=True, flag="cpu-cfs-quota-period"
    )
    node_status_max_images: int = setting(
        "nodeStatusMaxImages", INT32, 50, is_pointer=True, flag="node-status-max-images"
    )
    max_open_files: int = setting("maxOpenFiles", INT64, 1_000_000, flag="max-open-files")
    content_type: str = setting(
        "contentType", STRING, "application/vnd.kubernetes.protobuf", flag="kube-api-content-type"
    )
    kube_api_qps: int = setting("kubeAPIQPS", INT32, 50, is_pointer=True, flag="kube-api-qps")
    kube_api_burst: int = setting("kubeAPIBurst", INT32, 100, flag="kube-api-burst")
    serialize_image_pulls: bool = setting(
        "serializeImagePulls", BOOL, True, is_pointer=True, flag="serialize-image-pulls"
    )
    max_parallel_image_pulls: int | None = setting("maxParallelImagePulls", INT32, None, is_pointer=True)
    eviction_hard: Mapping[str, str] = setting("evictionHard", THRESHOLDS, NOTHING, flag="eviction-hard")
    eviction_soft: Mapping[str, str] = setting("evictionSoft", THRESHOLDS, NOTHING, flag="eviction-soft")
    eviction_soft_grace_period: Mapping[str, str] = setting(
        "evictionSoftGracePeriod", STRING_MAP, NOTHING, flag="eviction-soft-grace-period"
    )
    eviction_pressure_transition_period: float = setting(
        "evictionPressureTransitionPeriod", DURATION, 300.0, flag="eviction-pressure-transition-period"
    )
    eviction_max_pod_grace_period: int = setting(
        "evictionMaxPodGracePeriod", INT32, 0, flag="eviction-max-pod-grace-period"
    )
    eviction_minimum_reclaim: Mapping[str, str] = setting(
        "evictionMinimumReclaim", STRING_MAP, NOTHING, flag="eviction-minimum-reclaim"
    )
    merge_default_eviction_settings: bool = setting("mergeDefaultEvictionSettings", BOOL, False, is_pointer=True)
    pods_per_core: int = setting("podsPerCore", INT32, 0, flag="pods-per-core")
    enable_controller_attach_detach: bool = setting(
        "enableControllerAttachDetach", BOOL, True, is_pointer=True, flag="enable-controller-attach-detach"
    )
    protect_kernel_defaults: bool = setting("protectKernelDefaults", BOOL, False, flag="protect-kernel-defaults")
    make_iptables_util_chains: bool = setting(
        "makeIPTablesUtilChains", BOOL, True, is_pointer=True, flag="make-iptables-util-chains"
    )
    iptables_masquerade_bit: int = setting(
        "iptablesMasqueradeBit", INT32, 14, is_pointer=True, flag="iptables-masquerade-bit"
    )
    iptables_drop_bit: int = setting("iptablesDropBit", INT32, 15, is_pointer=True, flag="iptables-drop-bit")
    feature_gates: Mapping[str, bool] = setting("featureGates", BOOL_MAP, NOTHING, flag="feature-gates")
    fail_swap_on: bool = setting("failSwapOn", BOOL, True, is_pointer=True, flag="fail-swap-on")
    swap_behavior: str = setting("memorySwap.swapBehavior", STRING, "")
    container_log_max_size: str = setting("containerLogMaxSize", STRING, "10Mi", flag="container-log-max-size")
    container_log_max_files: int = setting(
        "containerLogMaxFiles", INT32, 5, is_pointer=True, flag="container-log-max-files"
    )
    container_log_max_workers: int = setting("containerLogMaxWorkers", INT32, 1, is_pointer=True)
    container_log_monitor_interval: float = setting("containerLogMonitorInterval", DURATION, 10.0, is_pointer=True)
    config_map_and_secret_change_detection_strategy: str = setting(
        "configMapAndSecretChangeDetectionStrategy", STRING, "Watch"
    )
    system_reserved: Mapping[str, str] = setting("systemReserved", STRING_MAP, NOTHING, flag="system-reserved")
    kube_reserved: Mapping[str, str] = setting("kubeReserved", STRING_MAP, NOTHING, flag="kube-reserved")
    reserved_system_cpus: str = setting("reservedSystemCPUs", STRING, "", flag="reserved-cpus")
    show_hidden_metrics_for_version: str = setting("showHiddenMetricsForVersion", STRING, "")
    system_reserved_cgroup: str = setting("systemReservedCgroup", STRING, "", flag="system-reserved-cgroup")
    kube_reserved_cgroup: str = setting("kubeReservedCgroup", STRING, "", flag="kube-reserved-cgroup")
    enforce_node_allocatable: tuple[str, ...] = setting(
        "enforceNodeAllocatable", STRINGS, ("pods",), flag="enforce-node-allocatable"
    )
    allowed_unsafe_sysctls: tuple[str, ...] = setting(
        "allowedUnsafeSysctls", STRINGS, (), flag="allowed-unsafe-sysctls"
    )
    volume_plugin_dir: str = setting(
        "volumePluginDir", STRING, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", flag="volume-plugin-dir"
    )
    provider_id: str = setting("providerID", STRING, "", flag="provider-id")
    kernel_memcg_notification: bool = setting("kernelMemcgNotification", BOOL, False, flag="kernel-memcg-notification")
    logging: Mapping[str, Any] = setting("logging", OBJECT, NOTHING)
    enable_system_log_handler: bool = setting("enableSystemLogHandler", BOOL, True, is_pointer=True)
    enable_system_log_query: bool = setting("enableSystemLogQuery", BOOL, False, is_pointer=True)
    shutdown_grace_period: float = setting("shutdownGracePeriod", DURATION, 0.0)
    shutdown_grace_period_critical_pods: float = setting("shutdownGracePeriodCriticalPods", DURATION, 0.0)
    shutdown_grace_period_by_pod_priority: tuple[Obj, ...] = setting("shutdownGracePeriodByPodPriority", OBJECTS, ())
    max_container_restart_period: float | None = setting(
        "crashLoopBackOff.maxContainerRestartPeriod", DURATION, None, is_pointer=True
    )
    reserved_memory: tuple[Obj, ...] = setting("reservedMemory", OBJECTS, ())
    enable_profiling_handler: bool = setting("enableProfilingHandler", BOOL, True, is_pointer=True)
    enable_debug_flags_handler: bool = setting("enableDebugFlagsHandler", BOOL, True, is_pointer=True)
    seccomp_default: bool = setting("seccompDefault", BOOL, False, is_pointer=True, flag="seccomp-default")
    memory_throttling_factor: float = setting("memoryThrottlingFactor", FLOAT64, 0.9, is_pointer=True)
    memory_reservation_policy: str = setting("memoryReservationPolicy", STRING, "None")
    register_with_taints: tuple[Obj, ...] = setting("registerWithTaints", OBJECTS, ())
    register_node: bool = setting("registerNode", BOOL, True, is_pointer=True, flag="register-node")
    tracing: Mapping[str, Any] | None = setting("tracing", OBJECT, None, is_pointer=True)
    local_storage_capacity_isolation: bool = setting(
        "localStorageCapacityIsolation", BOOL, True, is_pointer=True, flag="local-storage-capacity-isolation"
    )
    container_runtime_endpoint: str = setting(
        "containerRuntimeEndpoint", STRING, "unix:///run/containerd/containerd.sock", flag="container-runtime-endpoint"
    )
    image_service_endpoint: str = setting("imageServiceEndpoint", STRING, "", flag="image-service-endpoint")
    fail_cgroup_v1: bool = setting("failCgroupV1", BOOL, True, is_pointer=True)
    user_namespace_ids_per_pod: int | None = setting("userNamespaces.idsPerPod", INT64, None, is_pointer=True)
    runtime_cgroups: str = setting("", STRING, "", flag="runtime-cgroups")
    #: Deprecated for long, and still there: hard eviction thresholds do not lower what a node has to give.
    allocatable_ignores_eviction: bool = setting("", BOOL, False, flag="experimental-allocatable-ignore-eviction")

    def is_single_process_oom_kill(self, cgroup_version: int) -> bool:
        """Whether only one process of a container dies that exceeds its limit; cgroup v1 knows no other way (S4-09)."""
        return cgroup_version == 1 if self.single_process_oom_kill is None else self.single_process_oom_kill


SETTINGS: Final = tuple(Setting(entry.name, **entry.metadata) for entry in fields(KubeletConfiguration))
FLAGS: Final[Mapping[str, Setting]] = {entry.flag: entry for entry in SETTINGS if entry.flag}
#: What a node does without a configuration file, where that differs (applyLegacyDefaults).
WITHOUT_FILE: Final[Mapping[str, Any]] = {
    "anonymous_auth": True,
    "webhook_authentication": False,
    "authorization_mode": "AlwaysAllow",
    "read_only_port": 10255,
}
