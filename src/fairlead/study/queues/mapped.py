"""What a mapping comes to: the arbitrator's objects, and what of the queues they do not say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.arbitrator.objects import CONSUMER_GROUPS, CONSUMERS, THE_NAME

_NO_NAME: Final = re.compile(r"[^a-z0-9-]+")
#: Resources without a prefix are requests.
_PREFIXED: Final = ("requests.", "limits.")


class Mapped(msgspec.Struct):
    groups: dict[str, Obj] = msgspec.field(default_factory=dict)  # by name
    consumers: dict[str, Obj] = msgspec.field(default_factory=dict)  # by namespace
    #: What could not be mapped, in lines of text.
    notes: list[str] = msgspec.field(default_factory=list)

    def group(self, name: str, **spec: Any) -> str:
        """Adds a group; returns its name as an object may have it."""
        shown = group_name(name)
        self.groups[shown] = _object(CONSUMER_GROUPS.api_version, CONSUMER_GROUPS.kind, {"name": shown}, spec)
        return shown

    def consumer(self, namespace: str, **spec: Any) -> None:
        meta = {"name": THE_NAME, "namespace": namespace}
        self.consumers[namespace] = _object(CONSUMERS.api_version, CONSUMERS.kind, meta, spec)

    def objects(self) -> list[Obj]:
        return [*self.groups.values(), *self.consumers.values()]

    def lacks(self, what: str, fields: Iterable[str]) -> None:
        if told := sorted(fields):
            self.notes.append(f"{what}: {', '.join(told)} could not be mapped")


def group_name(name: str) -> str:
    return _NO_NAME.sub("-", name.lower()).strip("-")[:60] or "queue"


def amounts(resources: Mapping[str, Any]) -> dict[str, str]:
    """Quantities by quota name, without those that mean no bound."""
    return {
        name if name.startswith(_PREFIXED) else f"requests.{name}": str(amount)
        for name, amount in resources.items()
        if name != "pods" and amount is not None
    }


def _object(api_version: str, kind: str, meta: Obj, spec: Mapping[str, Any]) -> Obj:
    said = {key: value for key, value in spec.items() if value not in (None, "", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": said}
