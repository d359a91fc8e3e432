"""What a namespace asks for by its labels: a level and a version of the standards for each of three modes.

Source: k8s.io/pod-security-admission/api (helpers.go).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from fairlead.api.fields import Errors
from fairlead.golang.numbers import known_int

PREFIX: Final = "pod-security.kubernetes.io/"

_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LATEST: Final = "latest"


class Level(IntEnum):
    """From the one that allows everything to the strictest."""

    PRIVILEGED = 0
    BASELINE = 1
    RESTRICTED = 2

    def __str__(self) -> str:
        return self.name.lower()


_LEVELS: Final = {str(level): level for level in Level}


class LevelVersion(NamedTuple):
    """A level as it was in a minor version of Kubernetes 1; None is the latest."""

    level: Level
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{_LATEST if self.minor is None else f'v1.{self.minor}'}"

    @property
    def allows_everything(self) -> bool:
        return self.level is Level.PRIVILEGED

    def demands_more_than(self, other: LevelVersion) -> bool:
        """Whether pods that the other allows may violate this one."""
        if self.allows_everything:
            return False
        return self.minor != other.minor or self.level > other.level


ANYTHING: Final = LevelVersion(Level.PRIVILEGED)


class Policy(NamedTuple):
    """What refuses pods, what is written into the audit log, and what is warned of."""

    enforce: LevelVersion = ANYTHING
    audit: LevelVersion = ANYTHING
    warn: LevelVersion = ANYTHING


_ENFORCE, _WARN = f"{PREFIX}enforce", f"{PREFIX}warn"
_LABELS: Final = frozenset(f"{PREFIX}{mode}{suffix}" for mode in Policy._fields for suffix in ("", "-version"))


def policy_of(labels: Mapping[str, str], defaults: Policy) -> tuple[Policy, Errors]:
    """What these labels ask for, and what is wrong with them.

    There is an answer even if something is wrong: an unreadable level refuses what the strictest would (and warns of
    nothing), an unreadable version is the latest.
    """
    errors = Errors()
    if labels.keys().isdisjoint(_LABELS):
        return defaults, errors
    enforce = _asked(labels, "enforce", defaults.enforce, Level.RESTRICTED, errors)
    audit = _asked(labels, "audit", defaults.audit, Level.PRIVILEGED, errors)
    warn = _asked(labels, "warn", defaults.warn, Level.PRIVILEGED, errors)
    # Whoever says what is refused, and not what is warned of, is warned of what will be refused: workloads only warn.
    if _WARN not in labels and labels.get(_ENFORCE) in _LEVELS and enforce.level > warn.level:
        warn = LevelVersion(enforce.level, warn.minor if f"{_WARN}-version" in labels else enforce.minor)
    return Policy(enforce, audit, warn), errors


def _asked(
    labels: Mapping[str, str], mode: str, default: LevelVersion, if_unreadable: Level, errors: Errors
) -> LevelVersion:
    level, minor = default
    if (text := labels.get(label := f"{PREFIX}{mode}")) is not None:
        level = _LEVELS.get(text, if_unreadable)
        if text not in _LEVELS:
            errors.invalid(f"metadata.labels[{label}]", text, f"must be one of {', '.join(_LEVELS)}")
    if (text := labels.get(label := f"{PREFIX}{mode}-version")) is not None:
        minor = known_int(match[1]) if (match := _VERSION.fullmatch(text)) else None
        if minor is None and text != _LATEST:
            errors.invalid(f"metadata.labels[{label}]", text, f'must be "{_LATEST}" or "v1.x"')
    return LevelVersion(level, minor)
