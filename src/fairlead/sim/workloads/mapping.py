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

import csv
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads.distributions import quantity_text

KIND: Final = "ArrivalMapping"
_TIMES: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: Names of traces hold what names of pods cannot.
_NO_NAME: Final = re.compile(r"[^a-z0-9-]+")
_MOST_OF_ONE_ROW: Final = 100_000


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
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file, restval="")
            _check_columns(path, mapping, rows.fieldnames or ())
            found: list[Arrival] = []
            for row in rows:
                try:
                    found += _arrivals(row, mapping, rows.line_num)
                except (ValueError, OverflowError) as problem:
                    raise ValueError(f"{path}, line {rows.line_num}: {problem}") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(f"{path} is no CSV in UTF-8: {problem}") from None
    found.sort(key=lambda arrival: arrival.at)
    first = found[0].at if found else 0.0
    return [Arrival(arrival.at - first, arrival.obj) for arrival in found]


def _of(meaning: Column | str) -> Column:
    return Column(meaning) if isinstance(meaning, str) else meaning


def _check_columns(path: Path, mapping: ArrivalMapping, names: object) -> None:
    assert isinstance(names, list | tuple)
    meanings = [getattr(mapping.columns, field) for field in _Meanings.__struct_fields__]
    columns = [_of(meaning) for meaning in meanings if not isinstance(meaning, dict)]
    columns += [_of(each) for part in (mapping.columns.extended, mapping.columns.labels) for each in part.values()]
    wanted = {column.column for column in columns if column.column} | mapping.only.keys()
    if missing := wanted - set(names):
        raise ValueError(f"{path} has no column {', '.join(sorted(missing))}: it has {', '.join(names)}")


def _arrivals(row: Mapping[str, str], mapping: ArrivalMapping, number: int) -> Iterator[Arrival]:
    if any(row.get(column, "") not in values for column, values in mapping.only.items()):
        return
    columns = mapping.columns
    at = _seconds(columns.created, row)
    if at is None:
        raise ValueError("it does not say when it was created")
    count = int(float(_of(columns.count).read(row) or 1))
    if not 0 <= count <= _MOST_OF_ONE_ROW:
        raise ValueError(f"count {count} is not between 0 and {_MOST_OF_ONE_ROW:,}")
    name = _NO_NAME.sub("-", _of(columns.name).read(row).lower()).strip("-")[:200] or "pod"
    for index in range(count):
        yield Arrival(at, _pod(f"{name}-{number}" + (f"-{index}" if count > 1 else ""), row, columns))


def _pod(name: str, row: Mapping[str, str], columns: _Meanings) -> Obj:
    requests = {"cpu": columns.cpu, "memory": columns.memory, **columns.extended}
    amounts = {key: amount for key, meaning in requests.items() if (amount := _amount(meaning, row))}
    extended = {key: amounts[key] for key in columns.extended if key in amounts}
    resources: Obj = {"requests": amounts} | ({"limits": extended} if extended else {})
    annotations: dict[str, str] = {}
    if (lifetime := _lifetime(columns, row)) is not None:
        annotations[LIFETIME_SECONDS] = f"{max(lifetime, 0.001):.3f}"
    if exit_code := _of(columns.exitCode).read(row):
        annotations[EXIT_CODE] = str(int(float(exit_code)) % 256)
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
    lifetime = _seconds(columns.lifetime, row)
    if lifetime is None:
        started, ended = _seconds(columns.started or columns.created, row), _seconds(columns.ended, row)
        lifetime = ended - started if started is not None and ended is not None else None
    return lifetime if lifetime is not None and lifetime > 0 else None


def _seconds(meaning: Column | str, row: Mapping[str, str]) -> float | None:
    column = _of(meaning)
    text = column.read(row)
    if not text:
        return None
    if column.unit not in ("", *_TIMES):
        raise ValueError(f"unit {column.unit!r} is no unit of time: there are {', '.join(_TIMES)}")
    seconds = float(text) * _TIMES[column.unit or "s"]
    if not math.isfinite(seconds):
        raise ValueError(f"{column.column} {text!r} is no time")
    return seconds


def _amount(meaning: Column | str, row: Mapping[str, str]) -> str:
    column = _of(meaning)
    text = column.read(row)
    if not text:
        return ""
    try:
        if not column.unit:
            return str(parse(text))
        unit: Quantity = parse(column.unit)
    except QuantityError as problem:
        raise ValueError(f"{column.column or 'value'} {text!r}: {problem}") from None
    number = float(text)
    if not 0 <= number < 1e12:
        raise ValueError(f"{column.column} {text!r} is no amount")
    return quantity_text(number * unit.nanos, unit.format) if number else ""
