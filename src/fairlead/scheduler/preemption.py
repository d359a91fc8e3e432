"""What evicting pods could do for a pod that fits nowhere: here only how that is told when it can do nothing."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fairlead.api.scheduling import Pod
from fairlead.scheduler.diagnosis import Diagnosis, sentence

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
#: DynamicResources speaks first: it has no claims of the pod to give back (default since 1.34).
NO_CLAIMS: Final = "no new claims to deallocate"
#: After an outright refusal, DynamicResources misses the state that it would have left behind, and says just this.
NOT_FOUND: Final = "not found"


def advice(pod: Pod, found: Diagnosis) -> str:
    """The end of the message of a pod that cannot preempt anybody."""
    if found.outright:
        return NOT_FOUND
    if pod.spec.preemption_policy == "Never":
        return f"{NO_CLAIMS}, preemption: not eligible due to preemptionPolicy=Never."
    hopeless = len(found.resolvable)
    told = sentence(Counter({NO_VICTIMS: hopeless, NOT_HELPFUL: found.node_count - hopeless}))
    return f"{NO_CLAIMS}, preemption: 0/{found.node_count} nodes are available: {told}"
