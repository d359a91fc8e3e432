"""Why a pod is where it is, or nowhere: the decision taken again, and explained node by node.

It says what the same plugins say about the same snapshot; nothing here knows better than the scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fairlead.api.scheduling import Node, Pod
from fairlead.api.taints import first_untolerated, written
from fairlead.scheduler.claim_notes import attachment_waits, claim_waits
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Decider, Unfit
from fairlead.scheduler.device_notes import about_devices, about_sharers
from fairlead.scheduler.framework import CannotDecide, Nominate
from fairlead.scheduler.profile_runtime import ProfileRuntime
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot
from fairlead.scheduler.volume_notes import about_limits, about_users, about_zones


class RefusalGroup(msgspec.Struct):
    """Nodes that are refused for the same reasons."""

    plugin: str
    reasons: tuple[str, ...]
    helps: str
    nodes: list[str] = msgspec.field(default_factory=list)


class Scored(msgspec.Struct, frozen=True):
    """A node that would do."""

    node: str
    total: int
    scores: Mapping[str, int]


class Explanation(msgspec.Struct):
    """The whole answer."""

    pod: str
    headline: str
    groups: list[RefusalGroup] = msgspec.field(default_factory=list)
    #: The nodes that would do, the best first.
    scored: list[Scored] = msgspec.field(default_factory=list)
    #: What preemption would do or did not.
    preemption: str = ""
    #: What else decides.
    notes: list[str] = msgspec.field(default_factory=list)


def explain(model: ClusterModel, key: str) -> Explanation | None:
    """Take the decision for that `namespace/name` again; None if there is no such pod."""
    pod = model.pod(key)
    if pod is None:
        return None
    runtime = model.profiles.get(pod.spec.scheduler_name)
    if runtime is None:
        return Explanation(key, f'{key} asks for the scheduler "{pod.spec.scheduler_name}", which is another one')
    if pod.is_finished:
        return Explanation(key, f"{key} has finished ({pod.status.phase})")
    if pod.metadata.is_terminating and not pod.spec.node_name:
        return Explanation(key, f"{key} is not tried: it is going away")
    held = runtime.profile.pre_enqueue(pod, model.snapshot)
    if held is not None and not pod.spec.node_name:
        return Explanation(key, f"{key} is not tried yet: {held[1].reason}")
    if pod.spec.node_name:
        model.snapshot.remove(key)
    request = model.request(pod)
    explanation = _decided_again(runtime, pod, request, key)
    snapshot = model.snapshot
    if not pod.spec.node_name:
        explanation.notes += claim_waits(request.requirements, snapshot.volumes)
    elif pod.status.phase == "Pending":
        name, attachments = pod.spec.node_name, snapshot.attach_limits
        explanation.notes += attachment_waits(name, request.requirements, snapshot.volumes, attachments)
    gang = model.gang_of(pod)
    if gang is not None and not pod.spec.node_name:
        started = model.started_of(gang)
        ready = sum(_is_ready(model, member) for member in gang.waiting)
        one_of = f"{gang.needed(started)} pods of it must fit at once, and this tells of one"
        why = gang.missing(started + ready) or one_of
        explanation.notes.append(f"it starts with its group: {why}")
        members = (model.pod(member) for member in gang.waiting if member != key)
        others = (model.requirements.of(member) for member in members if member is not None)
        explanation.notes += about_sharers(request.requirements, others, snapshot)
    if model.configuration.settings.extenders:
        explanation.notes.append("the extenders of the configuration were not asked")
    return explanation


def _decided_again(runtime: ProfileRuntime, pod: Pod, request: SchedulingRequest, key: str) -> Explanation:
    decider = runtime.decider
    explanation = Explanation(key, _headline(pod, key))
    try:
        decision = decider.decide(request)
    except CannotDecide as error:
        explanation.headline += f": {error}"
        return explanation
    explanation.groups = _groups(decider, request)
    for node, scores in decider.scores(request).items():
        explanation.scored.append(Scored(node, sum(scores.values()), scores))
    explanation.scored.sort(key=lambda scored: (-scored.total, scored.node))
    if isinstance(decision, Unfit) and not pod.spec.node_name:
        outcome = runtime.post_filter(pod, request, decision.found)
        if isinstance(outcome, Nominate):
            explanation.preemption = _nomination(outcome)
            explanation.headline += f": {decision.found.text('')}"
        else:
            explanation.headline += f": {decision.found.text(outcome.message)}"
    return explanation


def _nomination(outcome: Nominate) -> str:
    if not outcome.victims:
        return f"it may be nominated to {outcome.node}"
    victims = ", ".join(sorted(victim.key for victim in outcome.victims))
    return f"it may drive away {victims} from {outcome.node}"


def _is_ready(model: ClusterModel, key: str) -> bool:
    """Whether a pod that waits may be tried."""
    pod = model.pod(key)
    if pod is None or pod.metadata.is_terminating:
        return False
    return model.profiles[pod.spec.scheduler_name].profile.pre_enqueue(pod, model.snapshot) is None


def _headline(pod: Pod, key: str) -> str:
    if pod.spec.node_name:
        return f"{key} is on {pod.spec.node_name}"
    return f"{key} waits"


def _groups(decider: Decider, request: SchedulingRequest) -> list[RefusalGroup]:
    """Every node that will not do, with those that will not for the same reasons."""
    snapshot, found = decider.snapshot, dict[tuple[str, tuple[str, ...]], RefusalGroup]()
    if (outright := decider.outright_refusal(request.requirements)) is not None:
        refuser, why = outright
        names = sorted(snapshot.names[row] for row in snapshot.rows().tolist())
        return [RefusalGroup(refuser.name, (why.reason,), "", names)]
    feasible = set(decider.feasible(request).tolist())
    for row in snapshot.rows().tolist():
        if row in feasible:
            continue
        with decider.dry_run(request) as dry_run:
            refused = dry_run.refusal(row, decider.nominations.against(request, snapshot.names[row]))
        if refused is None:
            continue
        plugin, refusals = refused
        reasons = tuple(sorted(reason for reason, count in refusals.reasons.items() if count))
        group = found.setdefault((plugin, reasons), RefusalGroup(plugin, reasons, ""))
        group.nodes.append(snapshot.names[row])
    for group in found.values():
        group.nodes.sort()
        group.helps = _HELP.get(group.plugin, _nothing)(request.requirements, snapshot, group.nodes)
    return sorted(found.values(), key=lambda group: (-len(group.nodes), group.plugin))


# --- what would help ------------------------------------------------------------------------------------------------


def _node(snapshot: Snapshot, name: str) -> Node:
    row = snapshot.row_of(name)
    node = snapshot.nodes[row] if row is not None else None
    assert node is not None
    return node


def _nothing(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    return ""


def _about_cordon(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    return f"kubectl uncordon {nodes[0]}"


def _about_taints(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    taints = {
        written(taint)
        for name in nodes
        if (taint := first_untolerated(_node(snapshot, name).taints, requirements.tolerations)) is not None
    }
    return f"a toleration for {', '.join(sorted(taints))}"


def _about_selector(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    wanted = ",".join(f"{key}={value}" for key, value in sorted(requirements.node_selector.items()))
    return f"a node with {wanted}" if wanted else "a node that its node affinity means"


def _about_room(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    """The closest that any of these nodes comes, resource by resource."""
    rows = [row for name in nodes if (row := snapshot.row_of(name)) is not None]
    lacking = []
    for name, wanted in requirements.requests.items():
        offered, taken = snapshot.allocatable[name], snapshot.requested[name]
        free, whole = max((int(offered[row] - taken[row]), int(offered[row])) for row in rows)
        if free < wanted:
            closest = f"at most {_shown(name, free)} of {_shown(name, whole)} free"
            lacking.append(f"{name}: wants {_shown(name, wanted)}, {closest}")
    return "; ".join(lacking) or "fewer pods on these nodes, or room for all it requests on one of them"


def _about_ports(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    ports = ", ".join(f"{port.port}/{port.protocol}" for port in requirements.host_ports)
    return f"a node on which {ports} is free"


def _shown(name: str, amount: int) -> str:
    """An amount as people write it."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", "ephemeral-storage"):
        for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if abs(amount) >= size:
                return f"{amount / size:.1f}".removesuffix(".0") + suffix
    return str(amount)


_HELP: Final[Mapping[str, Callable[[PodRequirements, Snapshot, list[str]], str]]] = {
    "NodeUnschedulable": _about_cordon,
    "TaintToleration": _about_taints,
    "NodeAffinity": _about_selector,
    "NodeResourcesFit": _about_room,
    "NodePorts": _about_ports,
    "InterPodAffinity": lambda *_: "other pods near by, or fewer, as its affinity terms want it",
    "PodTopologySpread": lambda *_: "room in the domains that have fewer of these pods",
    "VolumeRestrictions": about_users,
    "NodeVolumeLimits": about_limits,
    "VolumeZone": about_zones,
    "VolumeBinding": lambda *_: "a volume that these nodes can reach",
    "DynamicResources": about_devices,
}
