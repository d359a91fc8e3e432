"""Attaches volumes to the nodes of the pods that want them, and detaches them when no pod is left there that does.

To attach is to make a VolumeAttachment, which the attacher of a CSI driver sees; to detach is to delete it. A volume is
shown as attached (`volumesAttached`) before a kubelet mounts it, and is not any more before it is detached; what a
kubelet has mounted (`volumesInUse`) is left alone, unless its node is lost. A node is looked at as a whole, one after
the other: a volume that only one may have never gets to two.

Sources: pkg/controller/volume/attachdetach (reconciler, cache, populator), pkg/volume/csi/csi_attacher.go (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.attaching import (
    attachment_name,
    attachment_of,
    belong_together,
    is_attached_by,
    may_be_on_several_nodes,
    unique_name,
)
from fairlead.api.attachments import CSIDriver, VolumeAttachment
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.api.errors import NotFound
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod, claim_of
from fairlead.api.references import reference
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, Patch, Read, Requeue, Together, refusals
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import ATTACHMENTS, CLAIMS, CSI_DRIVERS, NODES, PODS, VOLUMES
from fairlead.controllers.volumes import users_of
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import parse_timestamp
from fairlead.runtime.metrics import Counter

#: How long a lost node may keep what it has mounted, once no pod wants it there.
LONGEST_UNMOUNT_SECONDS: Final = 360.0
#: How long the attacher of a driver has before its silence is told.
ATTACHER_SECONDS: Final = 120.0
FAILED: Final = "FailedAttachVolume"
#: How the controller calls what it makes; whatever else is called is somebody else's.
_OWN: Final = re.compile("csi-[0-9a-f]{64}")


class _Wanted(msgspec.Struct):
    """A volume that pods of a node want."""

    volume: PersistentVolume
    pods: list[Pod]

    @property
    def unique_name(self) -> str:
        assert self.volume.spec.csi is not None
        return unique_name(self.volume.spec.csi)

    def told(self, type_: str, reason: str, message: str) -> Iterator[Emit]:
        for pod in self.pods:
            yield Emit(reason, message, type_, about=reference(pod, PODS.resource))


class _Memory(msgspec.Struct, frozen=True):
    """What is lost with the process: since when which attachment is not wanted any more, and what was told of which."""

    unwanted: dict[str, float] = msgspec.field(default_factory=dict)
    told: dict[str, str] = msgspec.field(default_factory=dict)


class AttachDetach(Controller[Node]):
    name = "attachdetach-controller"
    account = "attachdetach-controller"
    kind = NODES
    workers = 1

    def __init__(self) -> None:
        self._memories: dict[str, _Memory] = {}  # by node
        self._forced = Counter(
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "[ALPHA] Volumes that were detached without the word of their node.",
            "reason",
        )
        self.families = (self._forced,)
        self.watches = (
            Watch(PODS, _node_of_pod),
            Watch(CLAIMS, _nodes_of_claim),
            Watch(VOLUMES, _nodes_of_volume),
            Watch(ATTACHMENTS, _nodes_of_attachment),
            Watch(CSI_DRIVERS, _nodes_of_driver),
        )

    def concerns(self, old: Node | None, new: Node | None, world: World) -> bool:
        return old is None or new is None or _relevant(old) != _relevant(new)

    def reconcile(self, obj: Node, world: World) -> Actions:
        wanted = _wanted(world, obj.metadata.name) if obj.has_volumes_attached else {}
        yield from self._turn(obj.metadata.name, obj, wanted, world)

    def gone(self, key: str, world: World) -> Actions:
        """Its pods may not be gone yet; nothing further is attached for them."""
        yield from self._turn(key, None, _wanted(world, key), world)

    def _turn(self, name: str, node: Node | None, wanted: Mapping[str, _Wanted], world: World) -> Actions:
        present = {each.metadata.name: each for each in _attached_to(world, name)}
        leaving = [each for key, each in present.items() if key not in wanted and _is_own(each)]
        memory = self._remembered(name, leaving, wanted, world)
        if not present and not wanted and (node is None or not node.status.volumes_attached):
            return
        going, next_in = _that_can_go(leaving, node, memory, world)
        if next_in is not None:
            yield Requeue(next_in)
        if node is not None:
            yield from _show(node, present, {each.metadata.name for each in going}, wanted)
            going = yield from _safe(going, node, world, memory)
        if going:
            _check((yield Together([Delete(ATTACHMENTS, each) for each in going])))
            for each in going:
                self._count(each, node, memory, world)
        if node is None:
            return
        made: list[Create] = []
        for key, of_pods in wanted.items():
            attachment, volume = present.get(key), of_pods.volume
            if attachment is not None:
                yield from _tell_failure(key, of_pods, attachment, memory, world)
            elif may_be_on_several_nodes(volume) or not (others := _elsewhere(world, volume, name)):
                made.append(Create(ATTACHMENTS, _new(key, volume, name)))
            else:
                yield from _tell_multi_attach(key, of_pods, others, memory, world)
        if made:
            _check((yield Together(made)))

    def _count(self, gone: VolumeAttachment, node: Node | None, memory: _Memory, world: World) -> None:
        if world.monotonic - memory.unwanted[gone.metadata.name] >= LONGEST_UNMOUNT_SECONDS:
            self._forced.add(("timeout",))
        elif node is not None and node.is_out_of_service:
            self._forced.add(("out-of-service",))

    def _remembered(
        self, name: str, leaving: Iterable[VolumeAttachment], wanted: Mapping[str, _Wanted], world: World
    ) -> _Memory:
        """What is known of the node from earlier turns, as far as it still matters."""
        before = self._memories.pop(name, _Memory())
        unwanted = {each.metadata.name: before.unwanted.get(each.metadata.name, world.monotonic) for each in leaving}
        memory = _Memory(unwanted, {key: told for key, told in before.told.items() if key in wanted})
        if unwanted or wanted:
            self._memories[name] = memory
        return memory


def _check(outcomes: Iterable[object]) -> None:
    """All were tried; the first that was refused is raised, so that there is another turn."""
    for refusal in refusals(outcomes):
        raise refusal


# -- what is wanted, and what is there


def _wanted(world: World, node: str) -> dict[str, _Wanted]:
    """The volumes that pods of the node want, by the name of their attachment."""
    found: dict[str, _Wanted] = {}
    for pod in _pods_with_claims(world, node):
        for volume in _volumes_of(world, pod):
            assert volume.spec.csi is not None
            key = attachment_name(volume.spec.csi, node)
            found.setdefault(key, _Wanted(volume, [])).pods.append(pod)
    return found


def _pods_with_claims(world: World, node: str) -> list[Pod]:
    return world.of(PODS).index("node with claims", lambda pod: (pod.spec.node_name,) if _wants(pod) else ())[node]


def _wants(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.spec.may_have_claims and not _is_over(pod)


def _is_over(pod: Pod) -> bool:
    """Whether nothing of it runs any more (IsPodTerminated)."""
    if pod.is_finished:
        return True
    if not pod.metadata.is_terminating:
        return False
    states = [status.state for status in pod.status.container_statuses]
    return all(state.waiting is not None or state.terminated is not None for state in states)


def _volumes_of(world: World, pod: Pod) -> Iterator[PersistentVolume]:
    """Those of its volumes that are attached."""
    for mounted in pod.spec.volumes:
        if not (name := claim_of(pod, mounted)):
            continue
        claim = world.get(CLAIMS, f"{pod.metadata.namespace}/{name}")
        if claim is None or claim.status.phase != "Bound":
            continue
        volume = world.get(VOLUMES, claim.spec.volume_name)
        if volume is None or volume.spec.csi is None or not belong_together(claim, volume):
            continue
        if is_attached_by(world.get(CSI_DRIVERS, volume.spec.csi.driver)):
            yield volume


def _attached_to(world: World, node: str) -> list[VolumeAttachment]:
    return world.of(ATTACHMENTS).index("node", lambda each: (each.spec.node_name,))[node]


def _elsewhere(world: World, volume: PersistentVolume, node: str) -> list[VolumeAttachment]:
    """Its attachments to other nodes, by whatever name."""
    every = (each for name in _names_of(world, volume) for each in attachments_of(world, name))
    return [each for each in every if each.spec.node_name != node]


def _names_of(world: World, volume: PersistentVolume) -> list[str]:
    """The PersistentVolumes that are the same to their driver: there should be one."""
    same = world.of(VOLUMES).index("handle", _handles)
    return [one.metadata.name for handle in _handles(volume) for one in same[handle]]


def _handles(volume: PersistentVolume) -> tuple[str, ...]:
    return (unique_name(volume.spec.csi),) if volume.spec.csi is not None else ()


def attachments_of(world: World, volume: str) -> list[VolumeAttachment]:
    """The attachments of a volume to whichever nodes."""
    return world.of(ATTACHMENTS).index("volume", lambda each: (each.volume_name,))[volume]


def _is_own(attachment: VolumeAttachment) -> bool:
    """Whether it is for the controller to delete, and nobody has yet."""
    return not attachment.metadata.is_terminating and _OWN.fullmatch(attachment.metadata.name) is not None


def _new(name: str, volume: PersistentVolume, node: str) -> Obj:
    assert volume.spec.csi is not None
    source = {"persistentVolumeName": volume.metadata.name}
    return {
        "apiVersion": ATTACHMENTS.resource.api_version,
        "kind": ATTACHMENTS.resource.kind,
        "metadata": {"name": name},
        "spec": {"attacher": volume.spec.csi.driver, "nodeName": node, "source": source},
    }


# -- who is woken


def _relevant(node: Node) -> tuple[object, ...]:
    status = node.status
    marks = (node.is_ready, node.is_out_of_service, node.has_volumes_attached)
    return status.volumes_in_use, status.volumes_attached, marks


def _node_of_pod(world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
    """The node where a pod has come to want volumes, or does not want them any more."""
    names = {pod.spec.node_name for pod in (old, new) if pod is not None and _wants(pod)}
    if old is None or new is None or _wants(old) != _wants(new):
        yield from names


def _nodes_of_claim(world: World, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> set[str]:
    if new is None or (old is not None and old.status.phase == new.status.phase):
        return set()
    return _nodes_of_users(world, new.metadata.key)


def _nodes_of_volume(world: World, old: PersistentVolume | None, new: PersistentVolume | None) -> set[str]:
    if new is None or (old is not None and old.claimant == new.claimant):
        return set()
    return _nodes_of_users(world, new.claimant)


def _nodes_of_users(world: World, claim: str) -> set[str]:
    return {pod.spec.node_name for pod in users_of(world, claim)}


def _nodes_of_attachment(world: World, old: VolumeAttachment | None, new: VolumeAttachment | None) -> set[str]:
    """Its node, and those that wait to have the volume instead."""
    either = new or old
    assert either is not None
    found = {either.spec.node_name}
    if (new is None or (old is not None and old.status != new.status)) and (
        volume := world.get(VOLUMES, either.volume_name)
    ) is not None:
        for name in _names_of(world, volume):
            if (same := world.get(VOLUMES, name)) is not None:
                found |= _nodes_of_users(world, same.claimant)
    return found


def _nodes_of_driver(world: World, old: CSIDriver | None, new: CSIDriver | None) -> list[str]:
    """All nodes, where a driver has said that its volumes are attached, or that they are not."""
    if is_attached_by(old) == is_attached_by(new):
        return []
    return [node.metadata.name for node in world.of(NODES)]


# -- detaching


def _that_can_go(
    leaving: Iterable[VolumeAttachment], node: Node | None, memory: _Memory, world: World
) -> tuple[list[VolumeAttachment], float | None]:
    """Those that may be detached, and in how many seconds that is to be asked again of the others, if at all.

    What a node that is not there any more has had mounted, nobody knows.
    """
    going: list[VolumeAttachment] = []
    next_in: float | None = None
    in_use = _in_use(node) if node is not None else {each.metadata.name for each in leaving}
    for each in leaving:
        if each.metadata.name not in in_use or (node is not None and node.is_out_of_service):
            going.append(each)
        elif node is None or not node.is_ready:
            remaining = memory.unwanted[each.metadata.name] + LONGEST_UNMOUNT_SECONDS - world.monotonic
            if remaining <= 0:
                going.append(each)
            else:
                next_in = remaining if next_in is None else min(next_in, remaining)
    return going, next_in


def _in_use(node: Node) -> set[str]:
    """The names of the attachments of what a node has mounted, or may."""
    return {attachment_of(name, node.metadata.name) for name in node.status.volumes_in_use or ()}


def _safe(
    going: list[VolumeAttachment], node: Node, world: World, memory: _Memory
) -> Generator[Action, Any, list[VolumeAttachment]]:
    """Those that the node has not begun to use, as the server knows it: from what it is shown now it mounts no more."""
    if not going:
        return going
    try:
        seen = yield Read(NODES, node.metadata.name)
    except NotFound:
        return going
    still, _ = _that_can_go(going, seen, memory, world)
    return still


def _show(
    node: Node, present: Mapping[str, VolumeAttachment], going: set[str], wanted: Mapping[str, _Wanted]
) -> Actions:
    """Say in the status of the node what is attached to it; pods are told of what is new."""
    shown = [each.name for each in node.status.volumes_attached or ()]
    attached = {
        key
        for key, each in present.items()
        if each.status.attached and not each.metadata.is_terminating and key not in going
    }
    kept = {name: None for name in shown if attachment_of(name, node.metadata.name) in attached}
    new = {each.unique_name: each for key, each in wanted.items() if key in attached and each.unique_name not in kept}
    names = [*kept, *new]
    if names != shown:
        listed = [{"name": name, "devicePath": ""} for name in names]
        yield Patch(NODES, node, {"status": {"volumesAttached": listed or None}}, subresource="status")
    for each in new.values():
        message = f"AttachVolume.Attach succeeded for volume {go_quote(each.volume.metadata.name)} "
        yield from each.told(NORMAL, "SuccessfulAttachVolume", message)


# -- what pods are told while they wait


def _tell_failure(key: str, wanted: _Wanted, attachment: VolumeAttachment, memory: _Memory, world: World) -> Actions:
    """What its attacher says, each time that it says something; or that it says nothing."""
    if attachment.status.attached or attachment.metadata.is_terminating:
        return
    error = attachment.status.attach_error
    if error is not None:
        told, why = f"{error.time} {error.message}", error.message
    else:
        waited = world.now - parse_timestamp(attachment.metadata.creation_timestamp)
        if waited < ATTACHER_SECONDS:
            yield Requeue(ATTACHER_SECONDS - waited)
            return
        source = wanted.volume.spec.csi
        assert source is not None
        what = f"{source.driver} CSI driver to attach volume {source.volume_handle}"
        told = why = f"timed out waiting for external-attacher of {what}"
    if memory.told.get(key) != told:
        memory.told[key] = told
        message = f"AttachVolume.Attach failed for volume {go_quote(wanted.volume.metadata.name)} : {why}"
        yield from wanted.told(WARNING, FAILED, message)


def _tell_multi_attach(
    key: str, wanted: _Wanted, others: list[VolumeAttachment], memory: _Memory, world: World
) -> Actions:
    """Told once; not at all while the volume is on its way to another node, or away from it."""
    if key in memory.told or any(
        each.metadata.is_terminating or not (each.status.attached or each.status.attach_error is not None)
        for each in others
    ):
        return
    memory.told[key] = "Multi-Attach error"
    nodes = {each.spec.node_name for each in others}
    users = [pod for node in sorted(nodes) for pod in _users_on(world, node, wanted.volume)]
    for pod in wanted.pods:
        why = _multi_attach(pod, users)
        message = f"Multi-Attach error for volume {go_quote(wanted.volume.metadata.name)} {why}"
        yield Emit(FAILED, message, WARNING, about=reference(pod, PODS.resource))


def _users_on(world: World, node: str, volume: PersistentVolume) -> list[Pod]:
    """The pods of a node that want a volume."""
    users = (pod for pod in users_of(world, volume.claimant) if pod.spec.node_name == node)
    return sorted((pod for pod in users if not _is_over(pod)), key=lambda pod: pod.metadata.key)


def _multi_attach(pod: Pod, users: Iterable[Pod]) -> str:
    """What keeps the volume from a pod; those of other namespaces are not named."""
    near = [user.metadata.name for user in users if user.metadata.namespace == pod.metadata.namespace]
    far = sum(user.metadata.namespace != pod.metadata.namespace for user in users)
    if not near and not far:
        return "Volume is already exclusively attached to one node and can't be attached to another"
    if not near:
        return f"Volume is already used by {far} pod(s) in different namespaces"
    beside = f" and {far} pod(s) in different namespaces" if far else ""
    return f"Volume is already used by pod(s) {', '.join(near)}{beside}"
