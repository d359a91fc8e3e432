"""What pods have used for a while, as Prometheus remembers it: annotations that simulated nodes understand.

Two range queries, in steps of an hour, of the figures that every kubelet gives (cAdvisor). Memory becomes its highest
hour, for that is what kills; CPU its mean, or a wave of the day where a whole day is known and its hours differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from fairlead.client.calls import CallError, Connections
from fairlead.client.tls import trusting
from fairlead.golang.json import UNREADABLE
from fairlead.runtime.clock import now
from fairlead.sim.behaviour import PREFIX

_HOUR, _DAY = 3600.0, 86400.0
_OF_CONTAINERS: Final = '{container!="",container!="POD",pod!=""}'
_BY: Final = "sum by (namespace, pod, container)"
_MEMORY: Final = f"{_BY} (max_over_time(container_memory_working_set_bytes{_OF_CONTAINERS}[1h]))"
_CPU: Final = f"{_BY} (rate(container_cpu_usage_seconds_total{_OF_CONTAINERS}[1h]))"
#: How long an answer may take, and how large it may be.
_SECONDS: Final = 60.0
_MOST_BYTES: Final = 1 << 28
#: Hours that differ by less than this part of the mean make no wave.
_EVEN: Final = 0.2

#: Annotations by pod (`namespace/name`).
Usage = dict[str, dict[str, str]]
#: By container: `namespace`, `pod`, `container`.
_Container = tuple[str, str, str]
_Points = Sequence[tuple[float, str]]


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class NoPrometheus(ValueError):
    """Nobody answers there as Prometheus does."""


def check_url(url: str) -> str:
    """The address without a slash at its end. Raises ValueError for what is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no address of Prometheus: write one such as http://localhost:9090")
    return url.rstrip("/")


async def usage_of_pods(url: str, seconds: float) -> Usage:
    """What the containers of each pod have used in so many seconds until now. Raises NoPrometheus."""
    connections = Connections("fairlead-capture")
    try:
        memory = await _asked(connections, url, _MEMORY, seconds)
        cpu = await _asked(connections, url, _CPU, seconds)
    finally:
        await connections.close()
    found: Usage = defaultdict(dict)
    for (namespace, pod, container), points in memory.items():
        if amounts := _numbers(points):
            highest = max(amount for _, amount in amounts)
            found[f"{namespace}/{pod}"][f"{container}.{PREFIX}usage-memory"] = f"{round(highest)}"
    for (namespace, pod, container), points in cpu.items():
        if amounts := _numbers(points):
            found[f"{namespace}/{pod}"][f"{container}.{PREFIX}usage-cpu"] = cpu_text(amounts)
    return dict(found)


def cpu_text(points: Sequence[tuple[float, float]]) -> str:
    """An amount, or a wave of the day."""
    hours: dict[int, list[float]] = defaultdict(list)
    for moment, amount in points:
        hours[datetime.fromtimestamp(moment, UTC).hour].append(amount)
    means = {hour: fmean(amounts) for hour, amounts in hours.items()}
    low, high, mean = min(means.values()), max(means.values()), fmean(means.values())
    if len(means) < 24 or high - low <= _EVEN * mean:
        return _milli(mean)
    peak = max(means, key=lambda hour: (means[hour], -hour))
    return f"wave(low={_milli(low)}, high={_milli(high)}, period=24h, peak={peak:02d}:30)"  # an hour's middle


def _milli(cores: float) -> str:
    return f"{round(cores * 1000)}m"


async def _asked(connections: Connections, url: str, query: str, seconds: float) -> Mapping[_Container, _Points]:
    end = now()
    asked = urlencode({"query": query, "start": f"{end - seconds:.0f}", "end": f"{end:.0f}", "step": f"{_HOUR:.0f}"})
    try:
        text = await connections.ask(
            "GET",
            f"{url}/api/v1/query_range?{asked}",
            context=trusting(b""),
            seconds=_SECONDS,
            most=_MOST_BYTES,
        )
        answer = msgspec.json.decode(text, type=_Answer)
    except (CallError, *UNREADABLE) as problem:
        raise NoPrometheus(f"{url} does not answer as Prometheus does: {problem}") from None
    if answer.status != "success" or answer.data.result_type != "matrix":
        raise NoPrometheus(f"{url} answers {answer.status!r}: {answer.error or answer.data.result_type}")
    return {_container(series.metric): series.values for series in answer.data.result}


def _container(metric: Mapping[str, Any]) -> _Container:
    return metric.get("namespace", ""), metric.get("pod", ""), metric.get("container", "")


def _numbers(points: _Points) -> list[tuple[float, float]]:
    """Without what is no amount (NaN after a restart of the target)."""
    found = []
    for moment, text in points:
        try:
            amount = float(text)
        except ValueError:
            continue
        if 0 <= amount < 1e18 and 0 <= moment < 1e11:
            found.append((moment, amount))
    return found
