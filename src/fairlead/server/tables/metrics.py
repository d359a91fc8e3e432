"""What `kubectl get pods.metrics.k8s.io` prints (metrics-server `pkg/api/table.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead.api.quantity import ZERO, parse
from fairlead.server.tables.base import Column, Printer, Subject, field, printer

_NAME: Final = Column("Name", lambda it: it.name, "Name of the resource", format="name")


def _used(resource: str) -> Callable[[Subject], str]:
    """The sum over the containers of a pod, or what a node uses."""

    def find(it: Subject) -> str:
        usages = [container.get("usage") or {} for container in it.obj.get("containers") or [it.obj]]
        return str(sum((parse(usage.get(resource, "0")) for usage in usages), ZERO))

    return find


METRICS: Final[Printer] = printer(
    _NAME,
    Column("cpu", _used("cpu"), "", format="quantity"),
    Column("memory", _used("memory"), "", format="quantity"),
    Column("Window", field("window"), "", format="duration"),
)
