"""Eviction settings, as the kubelet reads them (S3-45, S3-46, S3-50 to S3-54, S3-57, S3-58, S3-64, S3-81 to S3-83)."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.quantity import Quantity
from fairlead.golang.durations import format_seconds
from fairlead.node.configuration.load import configure
from fairlead.node.eviction.settings import EvictionSettings, eviction_settings
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.eviction.thresholds import Threshold, with_containerfs
from tests.node.golden import Row, expected, rows

_CAPACITY = Quantity.of_units(100 * 2**30)


def _written(threshold: Threshold) -> Row:
    found: Row = {
        "signal": str(threshold.signal),
        "grace": format_seconds(threshold.grace_seconds),
        "value": str(threshold.value),
    }
    if threshold.value.quantity is None:
        found["quantityAtCapacity100Gi"] = threshold.value.of(_CAPACITY).units
    if threshold.minimum_reclaim is not None:
        found["minReclaim"] = str(threshold.minimum_reclaim)
    return found


def _answer(row: Row) -> Row:
    try:
        settings = eviction_settings(configure(row.get("config"), row["flags"]).configuration)
    except ValueError as error:
        return {"error": str(error)}
    found: Row = {
        "thresholds": [
            _written(threshold)
            for threshold in sorted(settings.thresholds, key=lambda each: (each.signal, each.grace_seconds))
        ],
        "maxPodGracePeriodSeconds": settings.maximum_grace_seconds,
        "pressureTransitionPeriod": format_seconds(settings.transition_seconds),
    }
    return found | _containerfs(settings, row["filesystems"]) if "filesystems" in row else found


def _containerfs(settings: EvictionSettings, filesystems: str) -> Row:
    completed = with_containerfs(settings.thresholds, FileSystems(filesystems))
    added = [threshold for threshold in completed.completed if threshold.signal.startswith("containerfs.")]
    found: Row = {"containerfsThresholds": _in_order(map(_written, added))}
    return found | {"warning": completed.warning} if completed.warning else found


def _in_order(thresholds: Iterable[Row]) -> list[Row]:
    """Sorted, for the kubelet lists these as they come out of a hash table."""
    return sorted(thresholds, key=lambda threshold: (threshold["signal"], threshold["grace"]))


@rows("eviction_thresholds")
def test_settings_of_eviction_are_read_as_recorded(row: Row) -> None:
    answers = expected(row)
    for answer in answers:
        if "containerfsThresholds" in answer:
            answer["containerfsThresholds"] = _in_order(answer["containerfsThresholds"])
    assert _answer(row) in answers
