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
from fairlead.golang.quoting import go_quote

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

    @property
    def allows_everything(self) -> bool:
        return all(mode.allows_everything for mode in self)


#: What namespaces ask for that say nothing, unless a configuration says otherwise.
NOTHING_ASKED: Final = Policy()

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
    policy = _asked(labels, PREFIX, "metadata.labels[{}]", defaults, errors)
    # Whoever says what is refused, and not what is warned of, is warned of what will be refused: workloads only warn.
    level = policy.enforce.level
    if _WARN not in labels and labels.get(_ENFORCE) in _LEVELS and level > policy.warn.level:
        minor = policy.warn.minor if f"{_WARN}-version" in labels else policy.enforce.minor
        policy = policy._replace(warn=LevelVersion(level, minor))
    return policy, errors


def default_policy(values: Mapping[str, str], errors: Errors) -> Policy:
    """What a configuration file asks of namespaces that say nothing; an empty value says nothing."""
    return _asked({key: value for key, value in values.items() if value}, "", "defaults.{}", NOTHING_ASKED, errors)


def _asked(values: Mapping[str, str], prefix: str, path: str, defaults: Policy, errors: Errors) -> Policy:
    """Level and version of each mode; `path` is where a value is, by its key."""
    modes = []
    for mode, (level, minor), if_unreadable in zip(Policy._fields, defaults, _IF_UNREADABLE, strict=True):
        if (text := values.get(key := f"{prefix}{mode}")) is not None:
            level = _LEVELS.get(text, if_unreadable)
            if text not in _LEVELS:
                errors.invalid(path.format(key), text, f"must be one of {', '.join(_LEVELS)}")
        if (text := values.get(key := f"{prefix}{mode}-version")) is not None:
            minor = known_int(match[1]) if (match := _VERSION.fullmatch(text)) else None
            if minor is None and text != _LATEST:
                errors.invalid(path.format(key), text, f'must be "{_LATEST}" or "v1.x"')
        modes.append(LevelVersion(level, minor))
    return Policy(*modes)


#: What an unreadable level of each mode counts for.
_IF_UNREADABLE: Final = (Level.RESTRICTED, Level.PRIVILEGED, Level.PRIVILEGED)


def ignored_warning(namespace: str, labels: Mapping[str, str], policy: Policy, defaults: Policy) -> str:
    """What is said of labels of a namespace that is exempt; empty if they ask for nothing."""
    if policy.allows_everything or all(map(_is_equivalent, policy, defaults)):
        return ""
    ignored = [
        f"{mode}={asked}"
        for mode, asked in zip(Policy._fields, policy, strict=True)
        if not asked.allows_everything and not labels.keys().isdisjoint((f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"))
    ]
    what = f"the policy ({', '.join(ignored)}) will be ignored"
    return f"namespace {go_quote(namespace)} is exempt from Pod Security, and {what}"


def _is_equivalent(one: LevelVersion, other: LevelVersion) -> bool:
    return one == other or (one.allows_everything and other.allows_everything)
