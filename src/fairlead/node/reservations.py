"""What a node keeps from pods: for Kubernetes' daemons, for the system's, and for the higher classes of pods.

Sources: parseResourceList of cmd/kubelet/app/server.go, ParseQOSReserved of pkg/kubelet/cm/container_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from fairlead.api.podresources import Amounts
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.golang.numbers import known_int
from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.node.configuration.settings import KubeletConfiguration

PID: Final = "pid"
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", PID)

T = TypeVar("T")


class Reservations(msgspec.Struct, frozen=True):
    """Of the daemons; None where nothing was said at all: such a reservation cannot be enforced."""

    kube: Amounts | None = None
    system: Amounts | None = None


def reservations_of(config: KubeletConfiguration, cpus: int) -> Reservations:
    """On a machine of so many CPUs; ValueError for what is no reservation."""
    kube, system = dict(config.kube_reserved), dict(config.system_reserved)
    if config.reserved_system_cpus:
        kube.pop("cpu", None)
        system["cpu"] = str(_reserved_cpus(config.reserved_system_cpus, cpus))
    return Reservations(
        kube=read_flag("--kube-reserved", parse_resource_list, kube),
        system=read_flag("--system-reserved", parse_resource_list, system),
    )


def read_flag(flag: str, reader: Callable[[Mapping[str, str]], T], stated: Mapping[str, str]) -> T:
    try:
        return reader(stated)
    except ValueError as problem:
        raise ValueError(f"{flag} value failed to parse: {problem}") from None


def parse_resource_list(stated: Mapping[str, str]) -> Amounts | None:
    if not stated:
        return None
    return {name: _amount(name, text) for name, text in sorted(stated.items())}


def parse_qos_reserved(stated: Mapping[str, str]) -> Mapping[str, int]:
    """`memory=50%` and nothing else (S1-02)."""
    percents = {}
    for name, text in sorted(stated.items()):
        if name != "memory":
            raise ValueError(f"cannot reserve {go_quote(name)} resource")
        try:
            percents[name] = _whole_percent(text)
        except ValueError as problem:
            raise ValueError(
                f"failed to parse percentage {go_quote(text)} for {go_quote(name)} resource: {problem}"
            ) from None
    return percents


def _amount(name: str, text: str) -> Quantity:
    if name not in _RESERVABLE:
        raise ValueError(f"cannot reserve {go_quote(name)} resource")
    try:
        amount = parse(text)
    except QuantityError as problem:
        raise ValueError(
            f"failed to parse quantity {go_quote(text)} for {go_quote(name)} resource: {problem}"
        ) from None
    if amount.nanos < 0:
        raise ValueError(f"resource quantity for {go_quote(name)} cannot be negative: {text}")
    return amount


def _whole_percent(text: str) -> int:
    if not text.endswith("%"):
        raise ValueError(f"percentage expected, got '{text}'")
    percent = known_int(text.rstrip("%"))
    if percent is None:
        raise ValueError(f"invalid number in percentage '{text}'")
    if not 0 <= percent <= 100:
        raise ValueError("percentage must be between 0 and 100")
    return percent


def _reserved_cpus(text: str, cpus: int) -> int:
    reserved = parse_cpu_set(text)
    if not reserved.is_within(cpus):
        online = f"0-{cpus - 1}" if cpus > 1 else "0"
        raise ValueError(f"reserved-cpus: {text} is not a subset of online-cpus: {online}")
    return reserved.size
