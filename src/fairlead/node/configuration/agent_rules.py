"""Rules about the agent itself: leases, images, shutdown, logs."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.names import label_value, qualified_name
from fairlead.api.taints import EFFECTS
from fairlead.golang.durations import format_seconds
from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.feature_gates import PULLED_SECRET_IMAGES, FeatureGates
from fairlead.node.configuration.settings import KubeletConfiguration


def lease(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    if config.node_lease_duration_seconds <= 0:
        yield "nodeLeaseDurationSeconds must be greater than 0"
    if config.system_cgroups and not config.cgroup_root:
        yield "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"


def image_order(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    low, high = config.image_gc_low_threshold_percent, config.image_gc_high_threshold_percent
    if low >= high:
        yield (
            f"imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than "
            f"imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )
    least, most = config.image_minimum_gc_age, config.image_maximum_gc_age
    for name, age in (("imageMinimumGCAge", least), ("imageMaximumGCAge", most)):
        if age < 0:
            yield f"{name} {format_seconds(age)} must not be negative"
    if 0 < most <= least:
        yield (
            f"imageMaximumGCAge {format_seconds(most)} must be greater than imageMinimumGCAge {format_seconds(least)}"
        )


def image_pulls(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    parallel = config.max_parallel_image_pulls
    if parallel is not None and parallel < 1:
        yield f"maxParallelImagePulls {parallel} must be a positive number"
    if config.serialize_image_pulls and parallel is not None and parallel > 1:
        yield (
            "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) "
            "is set to false"
        )


def modes(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    if config.server_tls_bootstrap and not gates.enabled("RotateKubeletServerCertificate"):
        yield "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"
    if config.run_once:
        yield "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"


def taints(config: KubeletConfiguration) -> Iterator[str]:
    """These alone are not called an invalid configuration, but for the time."""
    for taint in config.register_with_taints:
        key, value, effect, added = (taint.get(name) or "" for name in ("key", "value", "effect", "timeAdded"))
        if qualified_name(key) or label_value(value) or (effect and effect not in EFFECTS):
            yield f"invalid taint: {{{key} {value} {effect} {added or '<nil>'}}}"
        if added:
            yield "invalid configuration: taint.TimeAdded is not nil"


def topology(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    policies = ("none", "best-effort", "restricted", "single-numa-node")
    if config.topology_manager_policy not in policies:
        listed = " ".join(map(go_quote, policies))
        policy = go_quote(config.topology_manager_policy)
        yield f"topologyManagerPolicy (--topology-manager-policy) {policy} must be one of: [{listed}]"
    if config.topology_manager_scope not in ("container", "pod"):
        scope = go_quote(config.topology_manager_scope)
        yield f'topologyManagerScope (--topology-manager-scope) {scope} must be one of: "container", or "pod"'


def shutdown(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    whole, critical = config.shutdown_grace_period, config.shutdown_grace_period_critical_pods
    if gates.enabled("GracefulNodeShutdown"):
        if critical > whole:
            limit = f"shutdownGracePeriod {_wrapped(whole)}"
            yield f"shutdownGracePeriodCriticalPods {_wrapped(critical)} must be <= {limit}"
        for name, period in (("shutdownGracePeriod", whole), ("shutdownGracePeriodCriticalPods", critical)):
            if period < 0 or 0 < period < 1:
                yield f"{name} {_wrapped(period)} must be either zero or otherwise >= 1 sec"
    elif whole > 0 or critical > 0:
        yield (
            "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods "
            "requires feature gate GracefulNodeShutdown"
        )
    if not config.shutdown_grace_period_by_pod_priority:
        return
    if not gates.enabled("GracefulNodeShutdownBasedOnPodPriority"):
        yield "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"
    elif whole > 0 or critical > 0:
        yield "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"


def hairpin(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    if config.hairpin_mode not in ("none", "hairpin-veth", "promiscuous-bridge"):
        yield (
            f"option {go_quote(config.hairpin_mode)} specified for hairpinMode (--hairpin-mode). "
            'Valid options are "none", "hairpin-veth" or "promiscuous-bridge"'
        )


def pull_credentials(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    policy = config.image_pull_credentials_verification_policy
    allowed = config.preloaded_images_verification_allowlist
    if not gates.enabled(PULLED_SECRET_IMAGES):
        gate = "must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"
        if policy:
            yield f"`imagePullCredentialsVerificationPolicy` {gate}"
        if allowed:
            yield f"`preloadedImagesVerificationAllowlist` {gate}"
        return
    policies = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")
    if policy not in policies:
        yield (
            f"option {go_quote(policy)} specified for imagePullCredentialsVerificationPolicy. Valid options are "
            '"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages" or "AlwaysVerify"'
        )
    if allowed and policy != "NeverVerifyAllowlistedImages":
        yield (
            "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` "
            'is not "NeverVerifyAllowlistedImages"'
        )
    elif problem := next(filter(None, map(_pattern_problem, allowed)), ""):
        yield f"invalid image pattern in `preloadedImagesVerificationAllowlist`: {problem}"


def _pattern_problem(pattern: str) -> str:
    """What is wrong with the name of an image or of a place of images (`HOST/PATH/*`); empty if nothing is."""
    if pattern != pattern.strip():
        return f"leading/trailing spaces are not allowed: {pattern}"
    bare = pattern.removesuffix("*") if pattern.endswith("/*") else pattern
    if not bare:
        return f"the supplied pattern is too short: {pattern}"
    if "*" in bare:
        return f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
    if bare == "/":
        return "at least registry hostname is required"
    if bare == pattern and ("@" in bare or ":" in bare.rpartition("/")[2]):
        return f"neither tag nor digest is accepted in an image reference: {pattern}"
    return ""


def logs(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    if not config.container_runtime_endpoint:
        yield "the containerRuntimeEndpoint was not specified or empty"
    if config.enable_system_log_query and not gates.enabled("NodeLogQuery"):
        yield "NodeLogQuery feature gate is required for enableSystemLogQuery"
    if config.enable_system_log_query and not config.enable_system_log_handler:
        yield "enableSystemLogHandler is required for enableSystemLogQuery"
    if config.container_log_max_workers < 1:
        yield "containerLogMaxWorkers must be greater than or equal to 1"
    if config.container_log_monitor_interval < 3:
        yield "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
    if config.container_log_max_files <= 1:
        yield "containerLogMaxFiles must be greater than 1"


def pod_logs(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    path = config.pod_logs_dir
    if not path.startswith("/"):
        yield f"pod logs path {go_quote(path)} must be absolute path"
    if any(part in ("", ".", "..") for part in path.removeprefix("/").split("/")) and path != "/":
        yield f"pod logs path {go_quote(path)} must be normalized"
    if not path.isascii():
        yield f"pod logs path {go_quote(path)} mut contains ASCII characters only"


def _wrapped(seconds: float) -> str:
    """As Go prints a duration that a structure holds."""
    return f"{{{format_seconds(seconds)}}}"
