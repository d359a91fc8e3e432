"""The cycle with extenders: the plugins decide, and services are asked beside them.

That takes time, so the queue remembers meanwhile what happens to the pod; nothing else is decided, as upstream has it.
"""

from __future__ import annotations

from fairlead.api.errors import ApiError
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.cycles.base import look_in_turns
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.extenders import Extenders
from fairlead.scheduler.framework import ExtenderFailure, Nominate, NoRoom
from fairlead.scheduler.outcomes import Outcomes
from fairlead.scheduler.plugins.default_preemption import DefaultPreemption, EnoughCandidates
from fairlead.scheduler.preemption import Preemptor
from fairlead.scheduler.profile_runtime import PostFilterResults, ProfileRuntime
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue


class ExtenderCycle:
    """Takes the pods that an extender is interested in."""

    def __init__(self, model: ClusterModel, queue: SchedulingQueue, outcomes: Outcomes, extenders: Extenders) -> None:
        self._model, self._queue, self._outcomes, self._extenders = model, queue, outcomes, extenders

    async def attempt(self, queued: QueuedPod) -> bool:
        if not self._extenders.interested(queued.pod):
            return False
        runtime = self._model.profiles[queued.profile.name]
        self._queue.track_in_flight(queued)
        try:
            await look_in_turns(queued, runtime)
            decision = await self._decide(queued, runtime)
            outcome = None if isinstance(decision, Chosen) else await self._post_filter(queued, runtime, decision)
        except (OSError, ApiError, ExtenderFailure) as error:
            if self._is_current(queued):
                self._outcomes.failed(queued, queued.pod, str(error))
            return True
        if not self._is_current(queued):  # it is gone, or somebody else has bound it
            return True
        if isinstance(decision, Chosen):
            self._queue.remove(queued.key)
            self._outcomes.place(queued, decision)
        elif outcome is not None:
            self._outcomes.refused(queued, decision, outcome)
        return True

    def _is_current(self, queued: QueuedPod) -> bool:
        return self._queue.get(queued.key) is queued

    async def _decide(self, queued: QueuedPod, runtime: ProfileRuntime) -> Chosen | Diagnosis:
        pod, request, decider = queued.pod, queued.request, runtime.decider
        names = [decider.snapshot.names[row] for row in decider.feasible(request).tolist()]
        if request.nominated in names:  # the nominated node is tried first, and alone
            nominated = await self._extenders.filter(pod, [request.nominated])
            if chosen := decider.choose_among(request, nominated.names, {}):
                return chosen
        left = await self._extenders.filter(pod, names)
        scores = await self._extenders.prioritise(pod, left.names) if len(left.names) > 1 else {}
        if chosen := decider.choose_among(request, left.names, scores):
            return chosen
        found = decider.diagnose(request)
        if len(left.names) != len(names):
            found.add_failed(decider.snapshot, left.failed, left.unresolvable)
        return found

    async def _post_filter(self, queued: QueuedPod, runtime: ProfileRuntime, found: Diagnosis) -> Nominate | NoRoom:
        """As the profile does it, but extenders have to agree to the victims of DefaultPreemption."""
        results = PostFilterResults(found)
        for plugin in results.still_asked(runtime.profile.post_filters):
            if isinstance(plugin, DefaultPreemption):
                results.add(await self._preempt(queued, runtime.preemptor, found, plugin.enough))
            else:
                results.add(await plugin.post_filter_in_turns(queued.pod, queued.request, found, runtime))
        return results.outcome

    async def _preempt(
        self, queued: QueuedPod, preemptor: Preemptor, found: Diagnosis, enough: EnoughCandidates
    ) -> Nominate | NoRoom:
        search = preemptor.search(queued.pod, queued.request, found, enough)
        if isinstance(search, NoRoom):
            return search
        await search.run()
        plans = preemptor.candidates(search)
        if isinstance(plans, NoRoom):
            return plans
        try:
            return preemptor.choose(await self._extenders.preempt(queued.pod, plans))
        except ExtenderFailure as error:
            return NoRoom(f"preemption: {error}", is_final=True)
