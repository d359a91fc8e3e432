"""What was found to be declared: models, each with its text and where that comes from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.node.volume_media import Medium
from fairlead.sim.usage.measures import Measure, NodeMeasure
from fairlead.sim.usage.models import UsageModel


class Declaration(msgspec.Struct, frozen=True):
    """A model with its text and where that comes from."""

    model: UsageModel
    text: str
    source: str


class VolumeDeclaration(Declaration, frozen=True):
    """The same of a volume: what it lies on, and the container whose memory it counts as if that is memory."""

    medium: Medium
    container: str


class PodUsageModels(msgspec.Struct, frozen=True):
    """What a pod uses. Measures that are missing are zero."""

    containers: Mapping[str, Mapping[Measure, Declaration]]
    volumes: Mapping[str, VolumeDeclaration]
    #: Whether anything but the default applies.
    is_declared: bool
    #: What was ignored because it makes no sense, as texts for `InvalidUsage` events.
    problems: tuple[str, ...] = ()

    def model(self, container: str, measure: Measure) -> UsageModel | None:
        declaration = self.containers.get(container, {}).get(measure)
        return None if declaration is None else declaration.model

    def in_memory(self, container: str) -> list[UsageModel]:
        """Of the volumes that count as memory of that container."""
        found = self.volumes.values()
        return [it.model for it in found if it.medium is Medium.MEMORY and it.container == container]


class NodeUsageModels(msgspec.Struct, frozen=True):
    """What a node uses outside its pods. Measures that are missing are zero."""

    measures: Mapping[NodeMeasure, Declaration]
    problems: tuple[str, ...] = ()
