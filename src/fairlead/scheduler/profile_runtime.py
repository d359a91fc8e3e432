"""What decides for the pods of one profile, over one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.scheduler.decide import Decider
from fairlead.scheduler.framework import Profile
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.preemption import Preemptor
from fairlead.scheduler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ProfileRuntime:
    profile: Profile
    decider: Decider
    preemptor: Preemptor

    @classmethod
    def over(cls, snapshot: Snapshot, nominations: Nominations, profile: Profile) -> ProfileRuntime:
        decider = Decider(snapshot, profile, nominations)
        return cls(profile, decider, Preemptor(decider))
