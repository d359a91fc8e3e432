"""The settings that are numbers with bounds of their own, and nothing else to check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from fairlead.golang.values import printed
from fairlead.node.configuration.settings import KubeletConfiguration

_NOT_NEGATIVE: Final = "must not be a negative number"
_PERCENT: Final = "must be between 0 and 100, inclusive"
_BIT: Final = "must be between 0 and 31, inclusive"


class Bound(NamedTuple):
    attribute: str
    label: str
    holds: Callable[[Any], bool]
    requirement: str

    def problems(self, config: KubeletConfiguration) -> Iterator[str]:
        value = getattr(config, self.attribute)
        if not self.holds(value):
            yield f"{self.label} {printed(value)} {self.requirement}"


def _between(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: least <= value <= most


def _is_natural(value: int) -> bool:
    return value >= 0


EVENTS: Final = (
    Bound("event_burst", "eventBurst (--event-burst)", _is_natural, _NOT_NEGATIVE),
    Bound("event_record_qps", "eventRecordQPS (--event-qps)", _is_natural, _NOT_NEGATIVE),
    Bound("healthz_port", "healthzPort (--healthz-port)", _between(0, 65535), "must be between 1 and 65535, inclusive"),
)
IMAGES: Final = (
    Bound(
        "image_gc_high_threshold_percent",
        "imageGCHighThresholdPercent (--image-gc-high-threshold)",
        _between(0, 100),
        _PERCENT,
    ),
    Bound(
        "image_gc_low_threshold_percent",
        "imageGCLowThresholdPercent (--image-gc-low-threshold)",
        _between(0, 100),
        _PERCENT,
    ),
)
NUMBERS: Final = (
    Bound("iptables_drop_bit", "iptablesDropBit (--iptables-drop-bit)", _between(0, 31), _BIT),
    Bound("iptables_masquerade_bit", "iptablesMasqueradeBit (--iptables-masquerade-bit)", _between(0, 31), _BIT),
    Bound("kube_api_burst", "kubeAPIBurst (--kube-api-burst)", _is_natural, _NOT_NEGATIVE),
    Bound("kube_api_qps", "kubeAPIQPS (--kube-api-qps)", _is_natural, _NOT_NEGATIVE),
    Bound(
        "node_status_max_images",
        "nodeStatusMaxImages (--node-status-max-images)",
        lambda value: value >= -1,
        "must be -1 or greater",
    ),
    Bound("max_open_files", "maxOpenFiles (--max-open-files)", _is_natural, _NOT_NEGATIVE),
    Bound("max_pods", "maxPods (--max-pods)", _is_natural, _NOT_NEGATIVE),
    Bound(
        "oom_score_adj",
        "oomScoreAdj (--oom-score-adj)",
        _between(-1000, 1000),
        "must be between -1000 and 1000, inclusive",
    ),
    Bound("pods_per_core", "podsPerCore (--pods-per-core)", _is_natural, _NOT_NEGATIVE),
    Bound("port", "port (--port)", _between(1, 65535), "must be between 1 and 65535, inclusive"),
    Bound(
        "read_only_port",
        "readOnlyPort (--read-only-port)",
        _between(0, 65535),
        "must be between 0 and 65535, inclusive",
    ),
    Bound("registry_burst", "registryBurst (--registry-burst)", _is_natural, _NOT_NEGATIVE),
    Bound("registry_pull_qps", "registryPullQPS (--registry-qps)", _is_natural, _NOT_NEGATIVE),
)
