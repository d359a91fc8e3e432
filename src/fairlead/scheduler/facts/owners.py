"""What a pod belongs to: the services and controllers that select it, as far as the scheduler cares.

Pods without constraints of their own are spread among those that the same services and the same controller select
(pkg/scheduler/framework/plugins/helper, DefaultSelector).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from fairlead.api.labels import Labels, LabelSelector, has_all
from fairlead.api.services import Service
from fairlead.scheduler.pod_relations import REMEMBERED, PodRelations

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class DefaultSelector:
    """Several selectors at once."""

    parts: tuple[LabelSelector, ...] = field(compare=False)
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _encode(self.parts))

    @property
    def is_empty(self) -> bool:
        """It says nothing, so it is not used."""
        return all(part.is_empty for part in self.parts)

    def matches(self, labels: Labels) -> bool:
        return all(part.matches(labels) for part in self.parts)


class Owners:
    """The selectors of services and controllers."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}  # namespace -> name -> selector
        self._controllers: dict[tuple[str, str, str], LabelSelector] = {}  # apiVersion, kind, namespace/name
        self._answers: dict[PodRelations, DefaultSelector] = {}

    def default_selector(self, relations: PodRelations) -> DefaultSelector:
        """What selects such a pod; empty if nothing does."""
        found = self._answers.get(relations)
        if found is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            found = self._answers[relations] = self._selector_of(relations)
        return found

    def _selector_of(self, relations: PodRelations) -> DefaultSelector:
        labels: dict[str, str] = {}
        for selector in self._services.get(relations.namespace, {}).values():
            if has_all(relations.labels, selector):
                labels |= selector
        parts = [LabelSelector(match_labels=labels)] if labels else []
        owner = relations.controller
        if owner is not None:
            key = (owner.api_version, owner.kind, f"{relations.namespace}/{owner.name}")
            if key in self._controllers:
                parts.append(self._controllers[key])
        return DefaultSelector(tuple(parts))

    def set_service(self, old: Service | None, new: Service | None) -> None:
        """A service came, changed or went."""
        either = new or old
        assert either is not None
        meta, wanted = either.metadata, new.spec.selector if new else None
        services = self._services.setdefault(meta.namespace, {})
        if services.get(meta.name) != wanted:
            services.pop(meta.name, None)
            if wanted is not None:
                services[meta.name] = wanted
            self._answers.clear()
        if not services:
            del self._services[meta.namespace]

    def set_controller(self, api_version: str, kind: str, key: str, selector: LabelSelector | None) -> None:
        """A controller came or changed; None: it went."""
        place = (api_version, kind, key)
        if self._controllers.get(place) != selector:
            self._controllers.pop(place, None)
            if selector is not None:
                self._controllers[place] = selector
            self._answers.clear()
