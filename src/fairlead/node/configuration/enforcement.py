"""What `enforceNodeAllocatable` may ask for: whose limits are written, and to which cgroups (S1-19 .. S1-22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.settings import KubeletConfiguration

PODS: Final = "pods"
SYSTEM_RESERVED: Final = "system-reserved"
SYSTEM_RESERVED_COMPRESSIBLE: Final = "system-reserved-compressible"
KUBE_RESERVED: Final = "kube-reserved"
KUBE_RESERVED_COMPRESSIBLE: Final = "kube-reserved-compressible"
NONE: Final = "none"

_SYSTEM: Final = (SYSTEM_RESERVED, SYSTEM_RESERVED_COMPRESSIBLE)
_KUBE: Final = (KUBE_RESERVED, KUBE_RESERVED_COMPRESSIBLE)
_SETTING: Final = "enforceNodeAllocatable (--enforce-node-allocatable)"


def enforcement_problems(config: KubeletConfiguration) -> Iterator[str]:
    levels = config.enforce_node_allocatable
    for pair in (_SYSTEM, _KUBE):
        if all(level in levels for level in pair):
            yield f"both {_quoted(pair, ' and ')} cannot be specified together in {_SETTING}"
    for index, level in enumerate(levels):
        if level in levels[:index]:
            yield f"duplicated enforcements {go_quote(level)} in {_SETTING}"
        else:
            yield from _level_problems(level, config)


def _level_problems(level: str, config: KubeletConfiguration) -> Iterator[str]:
    if level == NONE:
        if len(config.enforce_node_allocatable) > 1:
            yield f'{_SETTING} may not contain additional enforcements when "none" is specified'
        return
    if level not in (PODS, *_SYSTEM, *_KUBE):
        valid = f"{_quoted((PODS, *_SYSTEM, *_KUBE), ', ')} or {go_quote(NONE)}"
        yield f"option {go_quote(level)} specified for {_SETTING}. Valid options are {valid}"
        return
    if level in _SYSTEM and not config.system_reserved_cgroup:
        yield _cgroup_missing("systemReservedCgroup (--system-reserved-cgroup)", _SYSTEM)
    if level in _KUBE and not config.kube_reserved_cgroup:
        yield _cgroup_missing("kubeReservedCgroup (--kube-reserved-cgroup)", _KUBE)
    if not config.cgroups_per_qos:
        yield f"cgroupsPerQOS (--cgroups-per-qos) must be set to true when {go_quote(level)} contained in {_SETTING}"


def _cgroup_missing(setting: str, levels: tuple[str, ...]) -> str:
    return f"{setting} must be specified when {_quoted(levels, ' or ')} included in {_SETTING}"


def _quoted(levels: tuple[str, ...], separator: str) -> str:
    return separator.join(map(go_quote, levels))
