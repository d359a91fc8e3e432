"""Whether and when a container that ended is restarted (S0-64).

    ended ─▶ restarted at once ─▶ ended ─▶ 10 s ─▶ … ─▶ ended ─▶ 20 s ─▶ … ─▶ 300 s, and so on

A run that ends more than twice the longest delay after the last restart resets the back-off.
Sources: pkg/kubelet/kuberuntime (doBackOff), client-go/util/flowcontrol/backoff.go, pkg/api/v1/pod/util.go.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.api.pods import Container, Pod, RestartRule
from fairlead.golang.durations import format_seconds

#: The waiting reason of the container, and the reason of the event.
CRASH_LOOP: Final = "CrashLoopBackOff"
BACK_OFF: Final = "BackOff"
FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 300.0
#: What a rule may ask for: that every container of the pod runs anew, init containers first (KEP-5532).
RESTART_ALL: Final = "RestartAllContainers"
#: Repeated failures (restarts, pulls) have the longest delay from the sixth on.
STEADY_AFTER: Final = 6


class BackOff(msgspec.Struct, frozen=True):
    """The back-off of something that keeps failing (a container, a pull), as of its latest try."""

    seconds: float
    tried_at: float
    longest: float = LONGEST_SECONDS

    def allowed_at(self, failed_at: float) -> float:
        """When it may be tried again if it failed (a container: ended) at that time."""
        return failed_at if self._is_forgotten(failed_at) else failed_at + self.seconds

    def tried(self, failed_at: float, now: float) -> BackOff:
        """The back-off after a new try now, which followed a failure at that time."""
        if self._is_forgotten(failed_at):
            return first_try(now, self.longest)
        return BackOff(min(self.seconds * 2, self.longest), now, self.longest)

    def clock_set(self, seconds: float) -> BackOff:
        return replace(self, tried_at=self.tried_at + seconds)

    def _is_forgotten(self, failed_at: float) -> bool:
        return failed_at - self.tried_at > 2 * self.longest


def first_try(now: float, longest: float = LONGEST_SECONDS) -> BackOff:
    """The back-off after the first retry, which is immediate."""
    return BackOff(min(FIRST_SECONDS, longest), now, longest)


def runs_again(container: Container, pod_policy: str, exit_code: int) -> bool:
    """Whether a container that ended with this exit code is restarted."""
    if _rule_for(container, exit_code) is not None:
        return True
    policy = container.restart_policy or pod_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def init_runs_again(container: Container, pod_policy: str, exit_code: int) -> bool:
    """The same for an init container: one that succeeded is done, unless it is a sidecar."""
    if exit_code == 0 and container.restart_policy != "Always":
        return False
    if not container.restart_policy and pod_policy == "Always":
        return True
    return runs_again(container, pod_policy, exit_code)


def restarts_all(container: Container, exit_code: int) -> bool:
    """Whether all containers of the pod start again when this one has ended so."""
    rule = _rule_for(container, exit_code)
    return rule is not None and rule.action == RESTART_ALL


def may_restart_all(pod: Pod) -> bool:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(rule.action == RESTART_ALL for container in containers for rule in container.restart_policy_rules)


def _rule_for(container: Container, exit_code: int) -> RestartRule | None:
    """The first that fits; whatever its action, the container starts again."""
    for rule in container.restart_policy_rules:
        if rule.exit_codes is not None and rule.exit_codes.match(exit_code):
            return rule
    return None


def crash_loop_message(seconds: float, container: str, pod: Pod) -> str:
    return f"back-off {format_seconds(seconds)} restarting failed container={container} pod={_pod_id(pod)}"


def back_off_event(container: str, pod: Pod) -> str:
    return f"Back-off restarting failed container {container} in pod {_pod_id(pod)}"


def _pod_id(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
