"""Volumes that are attached to simulated nodes: their pods wait for them, and nodes say which are in use.

A kubelet says of a volume that it is in use before it mounts it, and mounts it once the controller has shown it as
attached; when the last pod that has it is over, it is in use no more. Simulated nodes do the same, at once and not with
their next status. Sources: pkg/kubelet/volumemanager (1.36), which says nothing while it waits.

Who attaches: the attacher of the driver, a program beside it. Where none will come, the volume is attached as soon as
that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fairlead.api.attaching import belong_together, is_attached_by, unique_name
from fairlead.api.attachments import CSIDriver, VolumeAttachment
from fairlead.api.builtin import CSI_DRIVERS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.api.errors import NotFound
from fairlead.api.guards import guarded
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod, claim_of
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.client.worker import work_off
from fairlead.node.start_requirements import claim_problem
from fairlead.runtime.workqueue import WorkQueue
from fairlead.sim.volumes import is_simulated_driver, is_simulated_volume

#: Keeps an attachment until its volume is detached; its driver's name follows.
ATTACHER_FINALIZER: Final = "external-attacher/"
#: After which time a node that comes with volumes in use says which of them are.
_STATUS_SECONDS: Final = 10.0
#: How many attachments, and statuses of nodes, are written at once.
_WORKERS: Final = 16


class AttachedVolumes:
    """Call `look` before a step of a pod that has no sandbox yet, and `release` when it is over."""

    def __init__(
        self,
        api: Api,
        as_node: Callable[[str], Api],
        informers: Informers,
        wake: Callable[[str], None],
        acts_for: Callable[[str], bool],
        *,
        attaches_all: bool,
    ) -> None:
        """`api` is that of the attacher; with `attaches_all` no driver has one of its own. `acts_for`: which nodes are
        simulated, and on.
        """
        self._api, self._as_node, self._attaches_all = api, as_node, attaches_all
        self._wake, self._acts_for = wake, acts_for
        self._nodes = informers.of(NODES, Node)
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self._volumes = informers.of(PERSISTENT_VOLUMES, PersistentVolume)
        self._drivers = informers.of(CSI_DRIVERS, CSIDriver)
        self._attachments = informers.of(VOLUME_ATTACHMENTS, VolumeAttachment)
        self._states: dict[str, str | None] = {}  # by uid of a pod that starts: what keeps it from its volumes
        self._used: dict[str, tuple[str, tuple[str, ...]]] = {}  # by uid of a pod: its node, and its volumes there
        self._users: dict[str, dict[str, set[str]]] = {}  # by node and volume: uids of pods
        self._written: dict[str, tuple[str, ...]] = {}  # by node: what it has said to be in use
        self._waiting: dict[str, set[str]] = {}  # by node: keys of the pods that wait for volumes
        self._without: dict[str, set[str]] = {}  # by key of a claim that is not bound: keys of pods
        self._statuses: WorkQueue[str] = WorkQueue()
        self._to_attach: WorkQueue[str] = WorkQueue()

    async def run(self, group: Callable[..., object]) -> None:
        """Begin to follow; `group` starts a task."""
        for informer in (self._nodes, self._claims, self._volumes, self._drivers, self._attachments):
            await informer.synced()
        await self._nodes.follow(self._node_event)
        await self._claims.follow(self._claim_event)
        await self._attachments.follow(self._attachment_event)
        await self._drivers.follow(self._driver_event)
        for _ in range(_WORKERS):
            group(work_off(self._statuses, "node", self._say), name="volumes in use")
            group(work_off(self._to_attach, "attachment", self._attach), name="simulated attacher")

    # -- pods

    def state(self, pod: Pod) -> str | None:
        """What keeps the pod from its volumes, as `look` has found: "" nothing, None that they are not attached yet."""
        return self._states.get(pod.metadata.uid, "")

    async def look(self, pod: Pod, *, is_starting: bool) -> None:
        """Find out which volumes the pod has to have attached, and say that they are in use."""
        if not pod.spec.may_have_claims:
            return
        uid, key, node = pod.metadata.uid, pod.metadata.key, self._nodes.get(pod.spec.node_name)
        if node is None or not node.has_volumes_attached:
            return
        if uid not in self._used:
            names, problem = await self._names(pod)
            if problem:
                self._states[uid] = problem
                return
            self._take(uid, pod.spec.node_name, names)
        if not is_starting:
            return
        names = self._used[uid][1]
        attached = {each.name for each in node.status.volumes_attached or ()}
        if attached.issuperset(names) and set(node.status.volumes_in_use or ()).issuperset(names):
            self._settle(pod)
            return
        self._states[uid] = None
        self._waiting.setdefault(pod.spec.node_name, set()).add(key)

    def release(self, pod: Pod) -> None:
        """Its containers have ended for good, or it is gone: its volumes are not mounted any more."""
        self._settle(pod)
        if pod.spec.may_have_claims and self._without:
            for mounted in pod.spec.volumes:
                self._found(f"{pod.metadata.namespace}/{claim_of(pod, mounted)}", pod)
        node, names = self._used.pop(pod.metadata.uid, ("", ()))
        users = self._users.get(node, {})
        for name in names:
            users[name].discard(pod.metadata.uid)
            if not users[name]:
                del users[name]
                self._statuses.add(node)

    def take(self, node: Node) -> None:
        """The node has come, or is on again: what it had in use before it may have no more."""
        if node.status.volumes_in_use:
            self._statuses.add_after(node.metadata.name, _STATUS_SECONDS)

    def forget(self, node: str) -> None:
        """The node is gone, or off: it says nothing more."""
        for uid in {uid for users in self._users.pop(node, {}).values() for uid in users}:
            del self._used[uid]
        self._written.pop(node, None)
        self._waiting.pop(node, None)

    def _settle(self, pod: Pod) -> None:
        self._states.pop(pod.metadata.uid, None)
        if (waiting := self._waiting.get(pod.spec.node_name)) is not None:
            waiting.discard(pod.metadata.key)

    def _take(self, uid: str, node: str, names: tuple[str, ...]) -> None:
        self._used[uid] = node, names
        users = self._users.setdefault(node, {})
        for name in names:
            if name not in users:
                self._statuses.add(node)
            users.setdefault(name, set()).add(uid)

    async def _names(self, pod: Pod) -> tuple[tuple[str, ...], str]:
        """How its node calls the volumes that it has to have attached; or what is wrong with a claim of its."""
        found: list[str] = []
        for mounted in pod.spec.volumes:
            if not (name := claim_of(pod, mounted)):
                continue
            key = f"{pod.metadata.namespace}/{name}"
            self._without.setdefault(key, set()).add(pod.metadata.key)  # before reading: so no change is missed
            volume = await self._volume(pod, name)
            if isinstance(volume, str):
                return (), claim_problem(mounted.name, key, volume)
            self._found(key, pod)
            if volume.spec.csi is not None and is_attached_by(self._drivers.get(volume.spec.csi.driver)):
                found.append(unique_name(volume.spec.csi))
        return tuple(dict.fromkeys(found)), ""

    def _found(self, claim: str, pod: Pod) -> None:
        pods = self._without.get(claim, set())
        pods.discard(pod.metadata.key)
        if not pods:
            self._without.pop(claim, None)

    async def _volume(self, pod: Pod, name: str) -> PersistentVolume | str:
        """The volume of a claim, or why there is none. Before it is missed, the server is asked."""
        api, namespace = self._as_node(pod.spec.node_name), pod.metadata.namespace
        claim = self._claims.get(f"{namespace}/{name}")
        if claim is None or claim.status.phase != "Bound":
            try:
                claim = (await api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)).view(PersistentVolumeClaim)
            except NotFound as error:
                return f"failed to fetch PVC from API server: {error}"
        if claim.status.phase != "Bound":
            return "PVC is not bound"
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None or not belong_together(claim, volume):
            try:
                volume = (await api.get(PERSISTENT_VOLUMES, claim.spec.volume_name)).view(PersistentVolume)
            except NotFound as error:
                return f"failed to fetch PV {claim.spec.volume_name} from API server: {error}"
        return volume

    # -- what nodes say

    def _node_event(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        name, status = new.metadata.name, new.status
        if old is None:
            self.take(new)
        if old is not None and (old.status.volumes_attached, old.status.volumes_in_use) != (
            status.volumes_attached,
            status.volumes_in_use,
        ):
            for key in tuple(self._waiting.get(name, ())):
                self._wake(key)

    def _claim_event(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            for key in tuple(self._without.get(new.metadata.key, ())):
                self._wake(key)

    async def _say(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not self._acts_for(name):
            return
        in_use = tuple(sorted(self._users.get(name, ())))
        if in_use == self._written.get(name, node.status.volumes_in_use or ()):
            return
        self._written[name] = in_use
        status: Obj = {"volumesInUse": list(in_use) or None}
        try:
            await self._as_node(name).patch(NODES, name, "", {"status": status}, subresource="status")
        except BaseException:
            self._written.pop(name, None)
            raise

    # -- who attaches

    def _attachment_event(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if new is not None and self._is_to_do(new):
            self._to_attach.add(new.metadata.name)

    def _driver_event(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        """It may have been told that its volumes are simulated."""
        either = new or old
        assert either is not None
        self._attach_those(each for each in self._attachments if each.spec.attacher == either.metadata.name)

    def _attach_those(self, found: Iterable[VolumeAttachment]) -> None:
        for each in found:
            self._attachment_event(None, each)

    def _is_to_do(self, attachment: VolumeAttachment) -> bool:
        if attachment.metadata.is_terminating:
            is_open = any(each.startswith(ATTACHER_FINALIZER) for each in attachment.metadata.finalizers)
        else:
            is_on_node = self._nodes.get(attachment.spec.node_name) is not None
            is_open = is_on_node and not attachment.status.attached
        return is_open and self._is_ours(attachment)

    def _is_ours(self, attachment: VolumeAttachment) -> bool:
        """Whether no attacher will come: a driver that nobody has told of has none."""
        if self._attaches_all:
            return True
        driver, volume = self._drivers.get(attachment.spec.attacher), self._volumes.get(attachment.volume_name)
        return driver is None or is_simulated_driver(driver) or (volume is not None and is_simulated_volume(volume))

    async def _attach(self, name: str) -> None:
        attachment = self._attachments.get(name)
        if attachment is None or not self._is_to_do(attachment):
            return
        if attachment.metadata.is_terminating:
            await self._detach(attachment)
            return
        patch = guarded({"status": {"attached": True}}, attachment.metadata)
        await self._api.patch(VOLUME_ATTACHMENTS, name, "", patch, subresource="status")

    async def _detach(self, attachment: VolumeAttachment) -> None:
        """In a dump an attacher has its finalizer there."""
        meta = attachment.metadata
        left = [each for each in meta.finalizers if not each.startswith(ATTACHER_FINALIZER)]
        patch = guarded({"metadata": {"finalizers": left or None}}, meta, unchanged=True)
        await self._api.patch(VOLUME_ATTACHMENTS, meta.name, "", patch)
