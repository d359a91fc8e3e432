"""Which rules hold at which level and version, and whether a pod keeps to them.

Rules change with versions of Kubernetes; a namespace that names a version keeps the rules as they were. A stricter rule
may take the place of one of baseline, so that a pod is not told the same twice.
Source: k8s.io/pod-security-admission/policy (registry.go, checks.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from fairlead.kinds.pod_security import baseline, restricted
from fairlead.kinds.pod_security.checked_pod import CheckedPod, Rule, Violation, but_own_users, but_windows
from fairlead.kinds.pod_security.policy import Level, LevelVersion


class _Check(msgspec.Struct, frozen=True, eq=False):
    """A rule as it was since a minor version, since another, …; before the first there was none."""

    revisions: tuple[tuple[int, Rule], ...]
    #: The check of baseline in whose place it is, from its own first version on.
    replaces: _Check | None = None

    def at(self, minor: int) -> Rule | None:
        held: Rule | None = None
        for since, rule in self.revisions:
            held = rule if since <= minor else held
        return held


def _check(*revisions: tuple[int, Rule], replaces: _Check | None = None) -> _Check:
    return _Check(revisions, replaces)


_CAPABILITIES: Final = _check((0, baseline.default_capabilities))
_HOST_PATHS: Final = _check((0, baseline.host_path_volumes))
_PROC_MOUNT: Final = _check((0, baseline.proc_mount), (35, but_own_users(baseline.proc_mount)))
_SECCOMP: Final = _check((0, baseline.seccomp_annotations), (19, baseline.seccomp_profile))

#: In the order in which violations are told: that of upstream's identifiers.
_BASELINE: Final = (
    _check((0, baseline.app_armor_profile)),
    _CAPABILITIES,
    _check((0, baseline.host_namespaces)),
    _HOST_PATHS,
    _check((0, baseline.host_ports)),
    _check((34, baseline.probed_hosts)),
    _check((0, baseline.privileged)),
    _PROC_MOUNT,
    _check((0, baseline.se_linux_options_1_0), (31, baseline.se_linux_options_1_31)),
    _SECCOMP,
    _check(
        (0, baseline.sysctls_1_0), (27, baseline.sysctls_1_27), (29, baseline.sysctls_1_29), (32, baseline.sysctls_1_32)
    ),
    _check((0, baseline.windows_host_process)),
)
_RESTRICTED: Final = (
    _check((8, restricted.no_privilege_escalation), (25, but_windows(restricted.no_privilege_escalation))),
    _check((22, restricted.no_capabilities), (25, but_windows(restricted.no_capabilities)), replaces=_CAPABILITIES),
    _check((35, baseline.proc_mount), replaces=_PROC_MOUNT),
    _check((0, restricted.restricted_volumes), replaces=_HOST_PATHS),
    _check((0, restricted.run_as_non_root), (35, but_own_users(restricted.run_as_non_root))),
    _check((23, restricted.run_as_user), (35, but_own_users(restricted.run_as_user))),
    _check(
        (19, restricted.some_seccomp_profile), (25, but_windows(restricted.some_seccomp_profile)), replaces=_SECCOMP
    ),
)

#: The last version that changed a rule. Whoever names a later one means the rules that we know.
LATEST_MINOR: Final = max(since for check in (*_BASELINE, *_RESTRICTED) for since, _ in check.revisions)


def _rules_at(level: Level, minor: int) -> Iterator[Rule]:
    stricter = [check for check in _RESTRICTED if check.at(minor)] if level is Level.RESTRICTED else []
    replaced = {check.replaces for check in stricter}
    for check in (*(check for check in _BASELINE if check not in replaced), *stricter):
        if rule := check.at(minor):
            yield rule


_RULES: Final = {
    (level, minor): tuple(_rules_at(level, minor))
    for level in (Level.BASELINE, Level.RESTRICTED)
    for minor in range(LATEST_MINOR + 1)
}


def violations(asked: LevelVersion, pod: CheckedPod) -> list[Violation]:
    """What of the pod is not allowed; linear in its size."""
    if asked.allows_everything:
        return []
    minor = LATEST_MINOR if asked.minor is None else min(asked.minor, LATEST_MINOR)
    return [found for rule in _RULES[asked.level, minor] if (found := rule(pod))]


def in_detail(found: Iterable[Violation]) -> str:
    """`privileged (container "a" must not …), hostPort (…)`."""
    return ", ".join(f"{violation.reason} ({violation.detail})" for violation in found)


def in_short(found: Iterable[Violation]) -> str:
    """`privileged, hostPort`: the same for pods that differ in names alone."""
    return ", ".join(violation.reason for violation in found)
