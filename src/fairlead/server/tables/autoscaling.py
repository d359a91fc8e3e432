"""HorizontalPodAutoscalers: the TARGETS column sets what was measured against what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from fairlead.api.objects import Obj
from fairlead.server.tables.base import AGE, NAME, Column, PrinterOf, Subject, field
from fairlead.server.tables.text import NONE, UNKNOWN, UNSET, shortened

_SHOWN_METRICS: Final = 2
_NO_QUANTITY: Final = "<nil>"  # Go's text of a quantity that is not there

#: Texts of a metric's source as the spec wants it, and of what the status says about it (None: nothing yet).
_Show: TypeAlias = Callable[[Obj, Obj | None], str]


def _per_pod(spec: Obj, measured: Obj | None) -> str:
    return f"{_quantity(measured, 'averageValue')}/{spec['target'].get('averageValue', _NO_QUANTITY)}"


def _value_or_average(spec: Obj, measured: Obj | None) -> str:
    target = spec["target"]
    if "averageValue" in target:
        average = (measured or {}).get("current", {}).get("averageValue", UNKNOWN)
        return f"{average}/{target['averageValue']} (avg)"
    return f"{_quantity(measured, 'value')}/{target.get('value', _NO_QUANTITY)}"


def _resource(spec: Obj, measured: Obj | None) -> str:
    target = spec["target"]
    if "averageValue" in target:
        return f"{spec['name']}: {_per_pod(spec, measured)}"
    used = (measured or {}).get("current", {}).get("averageUtilization")
    limit = target.get("averageUtilization")
    return f"{spec['name']}: {UNKNOWN if used is None else f'{used}%'}/{'<auto>' if limit is None else f'{limit}%'}"


def _quantity(measured: Obj | None, key: str) -> str:
    return UNKNOWN if measured is None else str(measured.get("current", {}).get(key, _NO_QUANTITY))


#: By the metric's type: the field that holds its source, and how to show it.
_SOURCES: Final[dict[str, tuple[str, _Show]]] = {
    "External": ("external", _value_or_average),
    "Pods": ("pods", _per_pod),
    "Object": ("object", _value_or_average),
    "Resource": ("resource", _resource),
    "ContainerResource": ("containerResource", _resource),
}


def _targets(autoscaler: Subject) -> str:
    specs: Sequence[Obj] = autoscaler.spec.get("metrics") or ()
    measured: Sequence[Obj] = autoscaler.status.get("currentMetrics") or ()
    texts = []
    for index, metric in enumerate(specs):
        if (source := _SOURCES.get(metric.get("type", ""))) is None:
            texts.append("<unknown type>")
            continue
        key, show = source
        texts.append(show(metric[key], measured[index].get(key) if index < len(measured) else None))
    return shortened(texts, _SHOWN_METRICS, len(texts), ", ") if texts else NONE


def _reference(autoscaler: Subject) -> str:
    target = autoscaler.spec.get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


_MIN_REPLICAS: Final = field("spec", "minReplicas", default=UNSET)

_COLUMNS: Final = (
    NAME,
    Column("Reference", _reference, "What it scales."),
    Column("Targets", _targets, "Measured and wanted values."),
    Column("MinPods", lambda it: str(_MIN_REPLICAS(it)), "It never scales below."),
    Column("MaxPods", field("spec", "maxReplicas", default=0), "It never scales above."),
    Column("Replicas", field("status", "currentReplicas", default=0), "How many replicas there are."),
    AGE,
)

HORIZONTAL_POD_AUTOSCALERS: Final = PrinterOf(Subject, _COLUMNS)


class _V1Subject(Subject):
    """An `autoscaling/v1` object: it knows but one metric, the utilization of CPU."""

    def __init__(self, obj: Obj, now: float) -> None:
        super().__init__(obj, now)
        target_percent = self.spec.get("targetCPUUtilizationPercentage")
        used = self.status.get("currentCPUUtilizationPercentage")
        if target_percent is not None:
            target = {"type": "Utilization", "averageUtilization": target_percent}
            self.spec = self.spec | {"metrics": [_cpu_metric("target", target)]}
        if used is not None:
            self.status = self.status | {"currentMetrics": [_cpu_metric("current", {"averageUtilization": used})]}


def _cpu_metric(key: str, value: Obj) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", key: value}}


HORIZONTAL_POD_AUTOSCALERS_V1: Final = PrinterOf(_V1Subject, _COLUMNS)
