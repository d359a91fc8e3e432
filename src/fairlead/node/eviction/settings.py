"""What a node's configuration says of eviction, with its texts read."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.node.configuration.enforcement import PODS
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.eviction.thresholds import Threshold, parse_thresholds

DEFAULT_TRANSITION_SECONDS: Final = 300.0


class EvictionSettings(msgspec.Struct, frozen=True):
    thresholds: tuple[Threshold, ...] = ()
    #: Zero, which only a flag can say, shows no condition ever (S3-64).
    transition_seconds: float = DEFAULT_TRANSITION_SECONDS
    #: The longest that a pod may take to stop once a soft threshold is met.
    maximum_grace_seconds: int = 0
    #: Whether the limits of local storage are looked after.
    local_storage_limits: bool = True


def eviction_settings(config: KubeletConfiguration) -> EvictionSettings:
    """ThresholdError for a threshold that makes no sense."""
    thresholds = parse_thresholds(
        config.eviction_hard,
        config.eviction_soft,
        config.eviction_soft_grace_period,
        config.eviction_minimum_reclaim,
        enforces_pods=PODS in config.enforce_node_allocatable,
    )
    return EvictionSettings(
        thresholds,
        config.eviction_pressure_transition_period,
        config.eviction_max_pod_grace_period,
        config.local_storage_capacity_isolation,
    )
