"""What the scheduler decides about: a pod, by what of it decides."""

from __future__ import annotations

import msgspec

from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements


class SchedulingRequest(msgspec.Struct, frozen=True):
    """What a decision is about: equal tasks get equal answers, but for what is nominated or assumed by uid."""

    requirements: PodRequirements
    relations: PodRelations
    priority: int = 0
    uid: str = ""
    #: Where it was promised room before, as long as that is so.
    nominated: str = ""
