"""CustomResourceDefinitions as components see them: which kinds they add to what the API serves."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.meta import Condition, Object, View
from fairlead.api.resources import Resource, Subresource


class Names(View):
    plural: str = ""
    singular: str = ""
    kind: str = ""


class Subresources(View):
    status: dict[str, str] | None = None
    scale: dict[str, str] | None = None


class Version(View):
    name: str
    served: bool = False
    storage: bool = False
    subresources: Subresources | None = None


class DefinitionSpec(View):
    group: str = ""
    scope: str = "Namespaced"
    versions: tuple[Version, ...] = ()


class DefinitionStatus(View):
    accepted_names: Names = Names()
    conditions: tuple[Condition, ...] | None = ()


class CustomResourceDefinition(Object):
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()

    @property
    def is_established(self) -> bool:
        return any(
            condition.type == "Established" and condition.status == "True" for condition in self.status.conditions or ()
        )

    def resources(self) -> Iterator[Resource]:
        """One row for each version that is served, the stored one first."""
        if self.is_established:
            for version in sorted(self.spec.versions, key=lambda version: not version.storage):
                if version.served:
                    yield self._row(version)

    def _row(self, version: Version) -> Resource:
        names = self.status.accepted_names
        scale = Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")
        has_scale = version.subresources is not None and version.subresources.scale is not None
        return Resource(
            group=self.spec.group,
            version=version.name,
            plural=names.plural,
            kind=names.kind,
            namespaced=self.spec.scope == "Namespaced",
            singular=names.singular,
            subresources={scale.name: scale} if has_scale else {},
        )
