"""What `cpuManagerPolicyOptions` may say. Source: pkg/kubelet/cm/cpumanager/policy_options.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.golang.numbers import parse_strict_bool
from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.feature_gates import FeatureGates

FULL_CORES: Final = "full-pcpus-only"
ACROSS_NUMA: Final = "distribute-cpus-across-numa"
BY_SOCKET: Final = "align-by-socket"
ACROSS_CORES: Final = "distribute-cpus-across-cores"
STRICT_RESERVATION: Final = "strict-cpu-reservation"
BY_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
_STAGES: Final[Mapping[str, str]] = {
    FULL_CORES: "",
    STRICT_RESERVATION: "",
    ACROSS_NUMA: "Beta",
    BY_UNCORE: "Beta",
    BY_SOCKET: "Alpha",
    ACROSS_CORES: "Alpha",
}
_EXCLUDE_EACH_OTHER: Final = (
    (FULL_CORES, ACROSS_CORES),
    (ACROSS_NUMA, ACROSS_CORES),
    (BY_UNCORE, ACROSS_CORES),
    (BY_UNCORE, ACROSS_NUMA),
)


class StaticOptions(msgspec.Struct, frozen=True):
    only_full_cores: bool = False
    across_numa: bool = False
    by_socket: bool = False
    across_cores: bool = False
    #: No pod at all runs on reserved CPUs.
    is_reservation_strict: bool = False
    by_uncore: bool = False


def static_options(stated: Mapping[str, str], gates: FeatureGates) -> StaticOptions:
    """ValueError for what a kubelet does not start with."""
    on = {name for name, text in sorted(stated.items()) if _is_on(name, text, gates)}
    for one, other in _EXCLUDE_EACH_OTHER:
        if {one, other} <= on:
            raise ValueError(f"static policy options {one} and {other} can not be used at the same time")
    return StaticOptions(
        only_full_cores=FULL_CORES in on,
        across_numa=ACROSS_NUMA in on,
        by_socket=BY_SOCKET in on,
        across_cores=ACROSS_CORES in on,
        is_reservation_strict=STRICT_RESERVATION in on,
        by_uncore=BY_UNCORE in on,
    )


def _is_on(name: str, text: str, gates: FeatureGates) -> bool:
    if name not in _STAGES:
        raise ValueError(f"unknown CPU Manager Policy option: {go_quote(name)}")
    stage = _STAGES[name]
    if stage and not gates.enabled(f"CPUManagerPolicy{stage}Options"):
        raise ValueError(f"CPU Manager Policy {stage}-level Options not enabled, but option {go_quote(name)} provided")
    try:
        return parse_strict_bool(text)
    except ValueError as problem:
        raise ValueError(f"bad value for option {go_quote(name)}: {problem}") from None
