"""The configuration that a node agent runs with: defaults, then its file, then its flags.

Two things surprise. Hard eviction thresholds have defaults with a file only, even an empty one. And a flag is taken as
it is, while zero in a file often means the default.
Source: cmd/kubelet/app/server.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.configuration.decode import decode
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.feature_gates import (
    CRASH_LOOP_MAX,
    PULLED_SECRET_IMAGES,
    QOS_RESERVED,
    FeatureGates,
)
from fairlead.node.configuration.flags import parse_flags
from fairlead.node.configuration.settings import SETTINGS, WITHOUT_FILE, KubeletConfiguration
from fairlead.node.configuration.validation import problems
from fairlead.node.restarts import LONGEST_SECONDS

DEFAULT_EVICTION_HARD: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


class Configured(msgspec.Struct, frozen=True):
    configuration: KubeletConfiguration
    gates: FeatureGates
    cgroup_version: int = 2
    #: What was said and does nothing.
    warnings: tuple[str, ...] = ()

    @property
    def longest_back_off(self) -> float:
        """How long a container that keeps ending waits for its next restart at most, in seconds."""
        stated = self.configuration.max_container_restart_period
        return LONGEST_SECONDS if stated is None else stated


def configure(
    document: Obj | None, arguments: Sequence[str] = (), *, cgroup_version: int = 2, path: str = "<config file>"
) -> Configured:
    """The document is what the file says, None where no file was given; StartupError for what a kubelet refuses."""
    flags = parse_flags(arguments)
    gates = _with_stated(FeatureGates(), flags.get("feature_gates", {}))
    warnings: list[str] = []
    if document is None:
        values = _with_defaults(WITHOUT_FILE, FeatureGates())
    else:
        values, warnings = _from_file(document, gates, path)
    stated_gates = {**values["feature_gates"], **flags.get("feature_gates", {})}
    configuration = KubeletConfiguration(**{**values, **flags, "feature_gates": stated_gates})
    gates = _with_stated(gates, stated_gates)
    if found := problems(configuration, gates, cgroup_version):
        raise StartupError(Stage.VALIDATION, found[0] if len(found) == 1 else f"[{', '.join(found)}]")
    if configuration.qos_reserved and not gates.enabled(QOS_RESERVED):
        warnings.append("qosReserved (--qos-reserved) does nothing: the feature gate QOSReserved is not enabled")
    if configuration.kernel_memcg_notification and cgroup_version == 2:
        warnings.append("kernelMemcgNotification (--kernel-memcg-notification) does nothing on cgroup v2")
    return Configured(configuration, gates, cgroup_version, tuple(warnings))


def _with_stated(gates: FeatureGates, stated: Mapping[str, bool]) -> FeatureGates:
    try:
        return gates.with_stated(stated)
    except ValueError as problem:
        message = f"failed to set feature gates from initial flags-based config: {problem}"
        raise StartupError(Stage.FLAGS, message) from None


def _from_file(document: Obj, gates: FeatureGates, path: str) -> tuple[dict[str, Any], list[str]]:
    try:
        stated, warnings = decode(document)
    except ValueError as problem:
        message = f"failed to load Kubelet config file {path}, error failed to decode: {problem}"
        raise StartupError(Stage.FILE, message) from None
    values = _with_defaults(stated, _with_stated(gates, stated.get("feature_gates", {})))
    if "eviction_hard" not in stated:
        values["eviction_hard"] = DEFAULT_EVICTION_HARD
    elif values["merge_default_eviction_settings"]:
        values["eviction_hard"] = {**DEFAULT_EVICTION_HARD, **stated["eviction_hard"]}
    return values, warnings


def _with_defaults(stated: Mapping[str, Any], gates: FeatureGates) -> dict[str, Any]:
    values = {setting.attribute: setting.default for setting in SETTINGS} | dict(stated)
    if "node_status_update_frequency" in stated:
        values["node_status_report_frequency"] = stated.get(
            "node_status_report_frequency", stated["node_status_update_frequency"]
        )
    if "serialize_image_pulls" not in stated:
        values["serialize_image_pulls"] = (values["max_parallel_image_pulls"] or 0) < 2
    if values["pod_pids_limit"] < 0:
        values["pod_pids_limit"] = -1
    if gates.enabled(CRASH_LOOP_MAX) and values["max_container_restart_period"] is None:
        values["max_container_restart_period"] = LONGEST_SECONDS
    if gates.enabled(PULLED_SECRET_IMAGES) and not values["image_pull_credentials_verification_policy"]:
        values["image_pull_credentials_verification_policy"] = "NeverVerifyPreloadedImages"
    return values
