"""What was said of a pod that fits nowhere is said of its equals, too, until something changes.

In an overloaded cluster thousands of equal pods wait. Each change that may help lets all of them be tried, the first
takes the room, and the others are refused, one by one, for one reason. kube-scheduler tries each, and that shows: an
attempt is counted, an event repeated, a back-off begun. So each is tried here, but only the first is decided about.
"""

from __future__ import annotations

from fairlead.api.scheduling import Pod
from fairlead.scheduler.answers import RefusalKey
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.diagnosis import KnownRefusal
from fairlead.scheduler.profile import Profile
from fairlead.scheduler.scheduling_request import SchedulingRequest


class KnownRefusals:
    """Those of one profile, kept with the answers that they rest on: whatever makes these void makes those."""

    def __init__(self, decider: Decider, profile: Profile) -> None:
        self._decider = decider
        self._can_repeat = all(plugin.repeats_post_filter for plugin in profile.post_filters)

    def find(self, pod: Pod, request: SchedulingRequest) -> KnownRefusal | None:
        """What would come of trying the pod, if that is known."""
        if not self._can_repeat:
            return None
        answers = self._decider.known_answers(request.requirements)
        if answers is None or not answers.refusals or not self._is_like_others(request):
            return None
        return answers.refusals.get(self._key(pod, request))

    def keep(self, pod: Pod, request: SchedulingRequest, refusal: KnownRefusal) -> None:
        """This came of trying the pod."""
        if not self._can_repeat or not self._is_like_others(request):
            return
        answers = self._decider.known_answers(request.requirements)
        if answers is not None:
            answers.refusals[self._key(pod, request)] = refusal

    def _is_like_others(self, request: SchedulingRequest) -> bool:
        """Nothing about it matters but what it requires, and how important it is."""
        return not request.nominated and self._decider.is_unaffected(request)

    def _key(self, pod: Pod, request: SchedulingRequest) -> RefusalKey:
        return request.priority, pod.spec.preemption_policy, self._decider.snapshot.budgets.version
