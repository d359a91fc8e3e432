"""What a kubelet refuses of its configuration, in its order and its words: a person sees all of it at once.

Source: pkg/kubelet/apis/config/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from fairlead.node.configuration import agent_rules, resource_rules
from fairlead.node.configuration.bounds import EVENTS, IMAGES, NUMBERS, Bound
from fairlead.node.configuration.enforcement import enforcement_problems
from fairlead.node.configuration.feature_gates import FeatureGates
from fairlead.node.configuration.settings import KubeletConfiguration

#: A rule yields what is wrong, without the `invalid configuration: ` before it.
Rule: TypeAlias = Callable[[KubeletConfiguration, FeatureGates], Iterator[str]]


def problems(config: KubeletConfiguration, gates: FeatureGates, cgroup_version: int) -> list[str]:
    """Everything that is wrong, each text once."""
    found = [
        *_broken(_BEFORE_TAINTS, config, gates),
        *agent_rules.taints(config),
        *_broken(_BEFORE_HOST, config, gates),
        *resource_rules.host(config, cgroup_version),
        *_broken(_AFTER_HOST, config, gates),
    ]
    return list(dict.fromkeys(found))


def _broken(rules: Iterable[Rule], config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    for rule in rules:
        yield from (f"invalid configuration: {problem}" for problem in rule(config, gates))


def _bounds(bounds: tuple[Bound, ...]) -> Rule:
    return lambda config, _gates: (problem for bound in bounds for problem in bound.problems(config))


def _enforcement(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    return enforcement_problems(config)


_BEFORE_TAINTS: Final[tuple[Rule, ...]] = (
    agent_rules.lease,
    _bounds(EVENTS),
    resource_rules.quota_period,
    _bounds(IMAGES),
    agent_rules.image_order,
    _bounds(NUMBERS),
    agent_rules.image_pulls,
    agent_rules.modes,
)
_BEFORE_HOST: Final[tuple[Rule, ...]] = (
    agent_rules.topology,
    agent_rules.shutdown,
    resource_rules.swap,
    resource_rules.crash_loop,
    _enforcement,
    agent_rules.hairpin,
    agent_rules.pull_credentials,
    resource_rules.reserved_cpus,
    resource_rules.reserved_memory,
)
_AFTER_HOST: Final[tuple[Rule, ...]] = (
    resource_rules.memory_qos,
    agent_rules.logs,
    agent_rules.pod_logs,
)
