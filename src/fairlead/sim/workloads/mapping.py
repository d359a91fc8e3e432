"""Pods from the table (CSV) of any trace: a mapping says which column means what, and in which unit.

columns:
  created: {column: submit_time, unit: ms}
  name: job_id
  lifetime: {column: duration}
  cpu: {column: plan_cpu, unit: 10m}       # a 1 in the column is so much
  memory: {column: plan_mem, unit: 1Gi}
  namespace: {value: batch}                # the same for all
only: {status: [Terminated, Failed]}       # rows with other values are left out
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.csv_rows import read_rows
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads.distributions import quantity_text

KIND: Final = "ArrivalMapping"
_TIMES: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: Names of traces hold what names of pods cannot.
_NO_NAME: Final = re.compile(r"[^a-z0-9-]+")
_MOST_OF_ONE_ROW: Final = 100_000
#: Whatever takes longer is a time in another unit: nobody's trace does, and no simulation of it would end.
_MOST_YEARS: Final = 20
_YEAR_SECONDS: Final = 365 * 86400.0


class Column(msgspec.Struct, forbid_unknown_fields=True):
    column: str = ""
    value: str = ""
    unit: str = ""

    def read(self, row: Mapping[str, str]) -> str:
        return row.get(self.column, "").strip() if self.column else self.value


_Columns = dict[str, Column | str]


class _Meanings(msgspec.Struct, forbid_unknown_fields=True):
    created: Column | str
    name: Column | str = ""
    namespace: Column | str = ""
    lifetime: Column | str = ""
    started: Column | str = ""
    ended: Column | str = ""
    cpu: Column | str = ""
    memory: Column | str = ""
    priorityClassName: Column | str = ""  # noqa: N815  # as in a pod
    exitCode: Column | str = ""  # noqa: N815
    count: Column | str = ""
    extended: _Columns = {}
    labels: _Columns = {}


class ArrivalMapping(msgspec.Struct, forbid_unknown_fields=True):
    columns: _Meanings
    only: dict[str, list[str]] = {}


def read_mapping(document: Obj) -> ArrivalMapping:
    """Raises ValueError for a document that is none."""
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    try:
        return msgspec.convert(fields, ArrivalMapping)
    except msgspec.ValidationError as problem:
        raise ValueError(f"{KIND}: {problem}") from None


def read_mapped(path: Path, mapping: ArrivalMapping) -> list[Arrival]:
    """By time; the first comes at once. Raises ValueError, which names the line."""
    rows = read_rows(
        path, "table of this mapping", lambda row, line: list(_arrivals(row, mapping, line)), _columns(mapping)
    )
    found = [arrival for of_row in rows for arrival in of_row]
    if not found:
        raise ValueError(f"{path}: no row of it is meant by `only`" if mapping.only else f"{path} has no rows")
    found.sort(key=lambda arrival: arrival.at)
    if too_long := _too_long(found[-1].at - found[0].at):
        raise ValueError(f"{path}: from the first pod to the last it is {too_long}: is the unit of `created` right?")
    return [Arrival(arrival.at - found[0].at, arrival.obj) for arrival in found]


def _of(meaning: Column | str) -> Column:
    return Column(meaning) if isinstance(meaning, str) else meaning


def _columns(mapping: ArrivalMapping) -> set[str]:
    """All that it speaks of."""
    meanings = [getattr(mapping.columns, field) for field in _Meanings.__struct_fields__]
    columns = [_of(meaning) for meaning in meanings if not isinstance(meaning, dict)]
    columns += [_of(each) for part in (mapping.columns.extended, mapping.columns.labels) for each in part.values()]
    return {column.column for column in columns if column.column} | mapping.only.keys()


def _arrivals(row: Mapping[str, str], mapping: ArrivalMapping, number: int) -> Iterator[Arrival]:
    if any(row.get(column, "") not in values for column, values in mapping.only.items()):
        return
    columns = mapping.columns
    at = _seconds(columns.created, row)
    if at is None:
        raise ValueError("it does not say when it was created")
    if at < 0:
        raise ValueError(f"{_named(columns.created, row)} is before all time: leave such rows out")
    count = _whole(columns.count, row, 1)
    if not 0 <= count <= _MOST_OF_ONE_ROW:
        raise ValueError(f"{_named(columns.count, row)} is not between 0 and {_MOST_OF_ONE_ROW:,}")
    name = _NO_NAME.sub("-", _of(columns.name).read(row).lower()).strip("-")[:200] or "pod"
    for index in range(count):
        yield Arrival(at, _pod(f"{name}-{number}" + (f"-{index}" if count > 1 else ""), row, columns))


def _pod(name: str, row: Mapping[str, str], columns: _Meanings) -> Obj:
    requests = {"cpu": columns.cpu, "memory": columns.memory, **columns.extended}
    amounts = {key: amount for key, meaning in requests.items() if (amount := _amount(key, meaning, row))}
    extended = {key: amounts[key] for key in columns.extended if key in amounts}
    resources: Obj = {"requests": amounts} | ({"limits": extended} if extended else {})
    annotations: dict[str, str] = {}
    if (lifetime := _lifetime(columns, row)) is not None:
        annotations[LIFETIME_SECONDS] = f"{max(lifetime, 0.001):.3f}"
    if _of(columns.exitCode).read(row):
        annotations[EXIT_CODE] = str(_whole(columns.exitCode, row, 0) % 256)
    spec: Obj = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "sim.fairlead.dev/task", "resources": resources}],
    }
    if priority := _of(columns.priorityClassName).read(row):
        spec["priorityClassName"] = priority
    namespace = _of(columns.namespace)
    inside = _NO_NAME.sub("-", namespace.read(row).lower()).strip("-")[:63] or "default"
    labels = {key: _of(meaning).read(row) for key, meaning in columns.labels.items()}
    meta: Obj = {"name": name, "namespace": inside, "annotations": annotations, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _lifetime(columns: _Meanings, row: Mapping[str, str]) -> float | None:
    """None for one that does not end; what ends in the second in which it began has an end."""
    lifetime = _seconds(columns.lifetime, row)
    if lifetime is not None:
        if lifetime < 0:
            raise ValueError(f"{_named(columns.lifetime, row)} is less than 0")
        return _credible(lifetime, columns.lifetime, row)
    beginning = columns.started or columns.created
    started, ended = _seconds(beginning, row), _seconds(columns.ended, row)
    if started is None or not ended:  # some traces have a 0 where a task has not ended
        return None
    if ended < started:
        raise ValueError(f"{_named(columns.ended, row)} is before {_named(beginning, row)}")
    return _credible(ended - started, columns.ended, row)


def _credible(lifetime: float, meaning: Column | str, row: Mapping[str, str]) -> float:
    if too_long := _too_long(lifetime):
        raise ValueError(f"{_named(meaning, row)} makes a life of {too_long}: is its unit right?")
    return lifetime


def _too_long(seconds: float) -> str:
    """In words; empty for what can be."""
    years = seconds / _YEAR_SECONDS
    return f"{years:,.0f} years" if years > _MOST_YEARS else ""


def _named(meaning: Column | str, row: Mapping[str, str]) -> str:
    """A value with its column, for those who look for it."""
    column = _of(meaning)
    return f"{column.column or 'value'} {column.read(row)!r}"


def _number(meaning: Column | str, row: Mapping[str, str]) -> float:
    try:
        return float(_of(meaning).read(row))
    except ValueError:
        raise ValueError(f"{_named(meaning, row)} is no number") from None


def _whole(meaning: Column | str, row: Mapping[str, str], default: int) -> int:
    if not _of(meaning).read(row):
        return default
    number = _number(meaning, row)
    if not number.is_integer():
        raise ValueError(f"{_named(meaning, row)} is no whole number")
    return int(number)


def _seconds(meaning: Column | str, row: Mapping[str, str]) -> float | None:
    column = _of(meaning)
    text = column.read(row)
    if not text:
        return None
    if column.unit not in ("", *_TIMES):
        raise ValueError(f"unit {column.unit!r} is no unit of time: there are {', '.join(_TIMES)}")
    seconds = _number(meaning, row) * _TIMES[column.unit or "s"]
    if not math.isfinite(seconds):
        raise ValueError(f"{_named(meaning, row)} is no time")
    return seconds


def _amount(resource: str, meaning: Column | str, row: Mapping[str, str]) -> str:
    """Empty where nothing is asked for."""
    column = _of(meaning)
    text = column.read(row)
    if not text:
        return ""
    if column.unit:
        number, unit = _number(meaning, row), _quantity(column.unit, "unit")
        if unit.nanos <= 0:
            raise ValueError(f"unit {column.unit!r} is no amount")
        if not 0 <= number < 1e12:
            raise ValueError(f"{_named(meaning, row)} is no amount")
        amount = quantity_text(number * unit.nanos, unit.format) if number else ""
    else:
        quantity = _quantity(text, column.column or "value")
        if quantity.nanos < 0:
            raise ValueError(f"{_named(meaning, row)} is no amount")
        amount = str(quantity) if quantity.nanos else ""
    if amount and resource not in ("cpu", "memory") and parse(amount).milli % 1000:
        raise ValueError(f"{_named(meaning, row)}: {resource} is counted in whole numbers, and this is {amount}")
    return amount


def _quantity(text: str, name: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError:
        raise ValueError(f"{name} {text!r} is no quantity: write 500m, 2 or 1Gi") from None
