"""Arrivals by chance: Poisson streams of pods, with a daily wave if there is one. `kind: Arrivals` says which."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from fairlead.api.names import dns1123_label, dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.runtime import rng as randomness
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.durations import seconds_of
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads.distributions import Distribution, amounts, durations, quantity_text

KIND: Final = "Arrivals"
_RATE: Final = re.compile(r"(?P<count>\d+(?:\.\d+)?)/(?P<unit>s|m|h|d)")
_UNIT_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: More pods than this are a slip of the keyboard.
MOST_PODS: Final = 5_000_000


#: YAML has numbers for `cpu: 2` and `cpu: 0.5`.
Amount = str | int | float


class Wave(msgspec.Struct, forbid_unknown_fields=True):
    """The rate swings about its mean: by `amplitude` of it, the highest at `peak`."""

    period: str = "24h"
    amplitude: float = 0.5
    peak: str = "14h"


class Stream(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    rate: str
    namespace: str = "default"
    cpu: Amount = "100m"
    memory: Amount = "128Mi"
    lifetime: str = "10m"
    priority_class_name: str = ""
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    failures: float = 0.0
    wave: Wave | None = None
    extended: dict[str, Amount] = {}

    def __post_init__(self) -> None:
        if problems := dns1123_subdomain(self.name):
            raise ValueError(f"name {self.name!r}: {problems[0]}")
        if problems := dns1123_label(self.namespace):
            raise ValueError(f"namespace {self.namespace!r}: {problems[0]}")
        if not 0 <= self.failures <= 1:
            raise ValueError(f"failures: {self.failures} is not between 0 and 1")
        if self.wave is not None and not 0 <= self.wave.amplitude <= 1:
            raise ValueError(f"amplitude: {self.wave.amplitude} is not between 0 and 1")


class Arrivals(msgspec.Struct, forbid_unknown_fields=True, rename={"length": "for"}):
    """The document."""

    length: str
    streams: list[Stream]


def generated(document: Obj) -> list[Arrival]:
    """In the order in which they come. Raises ValueError for a document that says something else."""
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    try:
        wanted = msgspec.convert(fields, Arrivals)
    except msgspec.ValidationError as problem:
        raise ValueError(f"{KIND}: {problem}") from None
    seconds = seconds_of(wanted.length)
    known: set[tuple[str, str]] = set()
    found: list[Arrival] = []
    for stream in wanted.streams:
        if (stream.namespace, stream.name) in known:
            raise ValueError(f"two streams are named {stream.name} in namespace {stream.namespace}")
        known.add((stream.namespace, stream.name))
        try:
            found += _arrivals(stream, seconds)
        except ValueError as problem:
            raise ValueError(f"stream {stream.name}: {problem}") from None
    return sorted(found, key=lambda arrival: arrival.at)


def _arrivals(stream: Stream, seconds: float) -> Iterator[Arrival]:
    rate = _per_second(stream.rate)
    if rate * seconds > MOST_PODS:
        raise ValueError(f"{stream.rate} for so long are more than {MOST_PODS:,} pods")
    make = _PodMaker(stream)
    rng, at, number = randomness.source(), 0.0, 0
    rate_at = _rate_over_time(rate, stream.wave)
    highest = rate * (1 + stream.wave.amplitude if stream.wave is not None else 1)
    while highest and (at := at + rng.expovariate(highest)) < seconds:
        if rng.random() * highest <= rate_at(at):  # thinning of the highest rate
            number += 1
            yield Arrival(at, make.pod(number, rng))


def _per_second(text: str) -> float:
    found = _RATE.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ValueError(f"rate {text!r} is none: write 30/h or 0.5/s")
    return float(found["count"]) / _UNIT_SECONDS[found["unit"]]


def _rate_over_time(mean: float, wave: Wave | None) -> Callable[[float], float]:
    if wave is None:
        return lambda at: mean
    peak, period, amplitude = seconds_of(wave.peak), seconds_of(wave.period), wave.amplitude
    if not period:
        raise ValueError(f"wave: period {wave.period!r} is no time")
    return lambda at: mean * (1 + amplitude * math.cos(2 * math.pi * (at - peak) / period))


class _PodMaker:
    """Makes the pods of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._amounts: dict[str, Distribution] = {
            "cpu": amounts(str(stream.cpu)),
            "memory": amounts(str(stream.memory)),
        }
        self._extended = {name: amounts(str(amount)) for name, amount in stream.extended.items()}
        self._lifetime = durations(stream.lifetime)

    def pod(self, number: int, rng: random.Random) -> Obj:
        stream = self._stream
        extended = {name: _drawn(found, rng) for name, found in self._extended.items()}
        requests = {name: _drawn(found, rng) for name, found in self._amounts.items()} | extended
        resources: dict[str, Any] = {"requests": requests}
        if extended:
            resources["limits"] = extended
        annotations = {LIFETIME_SECONDS: f"{max(self._lifetime.draw(rng), 0.001):.3f}"}
        if rng.random() < stream.failures:
            annotations[EXIT_CODE] = "1"
        spec: Obj = {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "sim.fairlead.dev/task", "resources": resources}],
        }
        if stream.priority_class_name:
            spec["priorityClassName"] = stream.priority_class_name
        if stream.node_selector:
            spec["nodeSelector"] = stream.node_selector
        meta: Obj = {"name": f"{stream.name}-{number}", "namespace": stream.namespace, "annotations": annotations}
        if stream.labels:
            meta["labels"] = stream.labels
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _drawn(distribution: Distribution, rng: random.Random) -> str:
    return quantity_text(distribution.draw(rng), distribution.style)
