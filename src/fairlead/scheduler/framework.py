"""What a scheduler plugin is: the extension points, and what flows between them.

    pre_enqueue ─▶ (queue, by rank) ─▶ pre_filter ─▶ filter ─▶ score ─▶ normalise ─▶ (assume) ─▶ …
                                                       └─▶ no node passes: post_filter
    … ─▶ reserve ─▶ permit ─▶ pre_bind ─▶ bind
            └─────────┴──────────┴──────────┴─▶ one of these fails: unreserve

A plugin answers for many nodes at once: `filter` returns a mask over the rows it is asked about, `score` an array of
integers. "Does not fit" is a value; an exception is a bug. Which plugins run, in which order and with which weights, is
the list in `fairlead.scheduler.plugins`; a profile (`profile.py`) changes it.

There are two families. What a `Plugin` says depends on the node and on what its pods take, so it is asked once for all
pods with the same requirements, and again only about nodes that changed. What a `PodRelationPlugin` says depends
on who the other pods are, anywhere; it is asked for every decision that concerns it, after those of the first family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Flag, auto
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import msgspec
import numpy as np

from fairlead.api.devices import ResourceClaim
from fairlead.api.scheduling import Node, Pod
from fairlead.api.verbs import Api
from fairlead.client.events import Recorder
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.device_metrics import DeviceMetrics
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot

if TYPE_CHECKING:
    from fairlead.scheduler.diagnosis import Diagnosis
    from fairlead.scheduler.profile_runtime import ProfileRuntime

MAX_NODE_SCORE: Final = 100


class Reads(Flag):
    """What the answer of a plugin for one node depends on, beside the pod: that alone makes it stale."""

    NODE = auto()  # the node itself
    AMOUNTS = auto()  # what the pods on the node request, and how many they are
    PODS = auto()  # anything about the pods on the node
    CLUSTER = auto()  # other nodes


class EventKind(Flag):
    """Changes that may let a refused pod fit (`ClusterEvent`)."""

    NODE_ADDED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()  # or cordoned no longer
    NODE_FEATURES = auto()  # what it declares that it can do
    NODE_REMOVED = auto()
    POD_PLACED = auto()
    POD_REMOVED = auto()
    POD_LABELS = auto()
    POD_SCALED_DOWN = auto()
    VOLUMES = auto()  # claims, volumes and classes
    ATTACH_LIMITS = auto()  # a node can have more volumes, or has fewer
    STORAGE_CAPACITY = auto()  # a driver has more room for new volumes
    DEVICE_CLASSES = auto()
    DEVICE_SLICES = auto()
    DEVICE_CLAIMS = auto()
    OWN_TOLERATIONS = auto()  # of the refused pod itself
    OWN_GATES = auto()
    OWN_LABELS = auto()
    OWN_DEVICE_CLAIMS = auto()  # they were made
    OWN_SCALED_DOWN = auto()


#: As upstream's metrics call them.
_LABELS: Final = {
    EventKind.NODE_ADDED: "NodeAdd",
    EventKind.NODE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    EventKind.NODE_LABELS: "NodeUpdateNodeLabel",
    EventKind.NODE_TAINTS: "NodeUpdateNodeTaint",
    EventKind.NODE_FEATURES: "NodeUpdateNodeDeclaredFeature",
    EventKind.NODE_REMOVED: "NodeDelete",
    EventKind.POD_PLACED: "AssignedPodAdd",
    EventKind.POD_REMOVED: "AssignedPodDelete",
    EventKind.POD_LABELS: "AssignedPodUpdatePodLabel",
    EventKind.POD_SCALED_DOWN: "AssignedPodUpdatePodScaleDown",
    EventKind.VOLUMES: "PersistentVolumeClaimUpdate",
    EventKind.ATTACH_LIMITS: "CSINodeUpdate",
    EventKind.STORAGE_CAPACITY: "CSIStorageCapacityUpdate",
    EventKind.DEVICE_CLASSES: "DeviceClassUpdate",
    EventKind.DEVICE_SLICES: "ResourceSliceUpdate",
    EventKind.DEVICE_CLAIMS: "ResourceClaimUpdate",
    EventKind.OWN_TOLERATIONS: "UnscheduledPodUpdatePodToleration",
    EventKind.OWN_GATES: "UnscheduledPodUpdatePodSchedulingGatesEliminated",
    EventKind.OWN_LABELS: "UnscheduledPodUpdatePodLabel",
    EventKind.OWN_DEVICE_CLAIMS: "UnscheduledPodUpdatePodGeneratedResourceClaim",
    EventKind.OWN_SCALED_DOWN: "UnscheduledPodUpdatePodScaleDown",
}


@cache
def _label_of(kinds: EventKind) -> str:
    return next((_LABELS[kind] for kind in kinds), "")


NO_EVENT: Final = EventKind(0)
ANY_EVENT: Final = ~NO_EVENT

#: Who refused, where extenders did.
EXTENDER: Final = "Extender"


class ClusterEvent(msgspec.Struct, frozen=True):
    """What happened: the events it counts as, and the object before and after."""

    kinds: EventKind
    old_node: Node | None = None
    new_node: Node | None = None
    #: Of the pod, and both together: None before it was there and after it is gone.
    old_requirements: PodRequirements | None = None
    new_requirements: PodRequirements | None = None
    old_relations: PodRelations | None = None
    new_relations: PodRelations | None = None
    #: The claim that came or changed, or whose volume did: `namespace/name`.
    claim: str = ""
    #: Of a claim of devices, and both together.
    old_device_claim: ResourceClaim | None = None
    new_device_claim: ResourceClaim | None = None

    @property
    def label(self) -> str:
        """How metrics call it: by the first of its kinds."""
        return _label_of(self.kinds)


class NotPermitted(Exception):
    """Raised by `permit`: the plugin does not let the pod start on its node; says why."""


class Rejected(Exception):
    """Raised by `pre_bind` and `bind`: the node will not do after all; says why. The pod is unschedulable."""


class PluginError(Exception):
    """Raised by `pre_bind` and `bind`: the plugin could not do its work; says why. The pod is tried again later."""


class CannotDecide(Exception):
    """Why nobody can say which node will do, or which is best: a plugin does not understand what the pod asks for."""


class ExtenderFailure(Exception):
    """An extender that is not `ignorable` did not answer, or answered with an error."""


class Refused(msgspec.Struct, frozen=True):
    """Why a pod cannot go anywhere, said before nodes are looked at."""

    reason: str


class Narrowed(msgspec.Struct, frozen=True):
    """Only these nodes come into question."""

    names: frozenset[str]


class Refusals(msgspec.Struct):
    """Why the nodes that a plugin filtered out do not do."""

    reasons: Counter[str]
    #: Of the rows asked about: those that evicting pods cannot help.
    unresolvable: Mask


class Nominate(msgspec.Struct, frozen=True):
    """The pod fits on that node once these pods are gone: they are evicted, and it waits there for their end."""

    node: str
    victims: tuple[Placed, ...] = ()


class NoRoom(msgspec.Struct, frozen=True):
    """A PostFilter plugin found no room; `message` is the end of what people read."""

    message: str
    #: An earlier nomination of the pod has come to nothing.
    clears_nomination: bool = False
    #: No plugin after this one is asked, and what those before it said does not count (as for upstream's statuses
    #: Error and UnschedulableAndUnresolvable).
    is_final: bool = False
    #: Things changed while it was looked for: the pod is tried again after its back-off, whatever else happens.
    is_overtaken: bool = False
    #: It was looked for as long as one decision may: the pod is tried again once its back-off is over, and not before.
    is_unfinished: bool = False
    #: The devices of this claim are given up, so that others can be had; one for extended resources goes with them.
    gives_up: ResourceClaim | None = None


class Handle(msgspec.Struct, frozen=True):
    """What plugins may use while a pod is being bound."""

    api: Api
    snapshot: Snapshot
    #: The pod of that `namespace/name` as it is now.
    pod: Callable[[str], Pod | None]
    recorder: Recorder | None = None
    device_metrics: DeviceMetrics = msgspec.field(default_factory=DeviceMetrics)


class AnyPlugin:
    """What all plugins have in common: who they are, and when a pod is worth another try."""

    name: ClassVar[str]
    #: Text for a node that `filter` leaves out, and whether evicting pods might help; see `refusals`.
    reason: ClassVar[str] = ""
    is_resolvable: ClassVar[bool] = False
    #: The changes after which a pod refused by this plugin may be worth another try; see `helps`.
    events: ClassVar[EventKind] = NO_EVENT
    #: What `pluginConfig` may say of it.
    arguments: ClassVar[type[Arguments]] = Arguments

    @classmethod
    def configured(cls, args: Any) -> Self:
        """The plugin with these arguments, which are of the type that `arguments` names."""
        return cls()

    def pre_enqueue(self, pod: Pod, snapshot: Snapshot) -> Refused | None:
        """Why the pod must not even be tried yet."""
        return None

    def rank(self, pod: Pod, since: float) -> tuple[float, ...]:
        """Who is tried first: the least. `since` is when the pod came or was last refused. A profile asks the first
        plugin that overrides this, and all profiles should have the same one.
        """
        return -pod.priority, since

    def post_filter(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime
    ) -> Nominate | NoRoom:
        """Make room for a pod that fits nowhere, for the reasons `found`. The first plugin to nominate it ends this."""
        raise NotImplementedError

    async def post_filter_in_turns(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime
    ) -> Nominate | NoRoom:
        """The same for the scheduler, where others wait: what takes long lets them have turns of the event loop."""
        return self.post_filter(pod, request, found, runtime)

    #: Whether `post_filter` that makes no room for a pod makes none for another of its priority and preemption policy
    #: that requires the same, and in the same words, until pods, nodes or budgets change.
    repeats_post_filter: ClassVar[bool] = False

    def reserve(self, pod: Pod, node: str, handle: Handle) -> None:
        """The pod was given that node, and counts as being there."""

    def unreserve(self, pod: Pod, node: str, handle: Handle) -> None:
        """It came to nothing."""

    async def permit(self, pod: Pod, node: str, handle: Handle) -> None:
        """Hold the binding back for as long as this takes. Raises NotPermitted: then the pod is tried again later."""

    def pre_binds(self, pod: Pod, node: str, handle: Handle) -> bool:
        """Whether `pre_bind` has anything to do for the pod (`PreBindPreFlight`)."""
        return True

    async def pre_bind(self, pod: Pod, node: str, handle: Handle) -> None:
        """Bring about what must be there before the pod is bound. Raises Rejected or PluginError."""

    async def bind(self, pod: Pod, node: str, handle: Handle) -> bool:
        """Bind the pod; False leaves it to the next plugin (`Skip`). Raises Rejected or PluginError."""
        return False

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Whether this change, one of `events`, may let the pod pass this plugin (`QueueingHintFn`)."""
        return True

    def _refused(self, count: int) -> Refusals:
        return Refusals(Counter({self.reason: count}), np.full(count, not self.is_resolvable))


class Plugin(AnyPlugin):
    """Base of plugins about nodes. It takes part nowhere: override what the plugin is about."""

    reads: ClassVar[Reads] = Reads.NODE
    #: Whether scores mean something only beside those of the other feasible nodes; see `normalise`.
    normalises: ClassVar[bool] = False

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | Narrowed | None:
        """Refuse the pod outright, or say that only some nodes come into question."""
        return None

    async def look_in_turns(self, requirements: PodRequirements, snapshot: Snapshot) -> None:
        """Find out what `filter` will be asked, where that takes long: others have turns of the event loop meanwhile.
        The scheduler asks for it before it decides; what changes until then counts.
        """

    def filters(self, requirements: PodRequirements) -> bool:
        """Whether `filter` has anything to say about such pods."""
        return False

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        """Which of the rows will do."""
        raise NotImplementedError

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Why the rows that `filter` left out will not do."""
        return self._refused(len(rows))

    def scores(self, requirements: PodRequirements) -> bool:
        """Whether `score` has anything to say about such pods."""
        return False

    def scoring_fault(self, requirements: PodRequirements) -> str:
        """Why `score` could not say anything sensible of such pods; they are not placed then, if there is a choice."""
        return ""

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        """How good each row is, in whole numbers; 0 to 100 after `normalise`."""
        raise NotImplementedError

    def normalise(self, scores: Ints) -> Ints:
        """The scores of all feasible nodes brought to 0…100, if `normalises`. Equal scores must come out equal:
        a scorer that finds all nodes alike is left out of the choice.
        """
        return scores


class PodRelationPlugin(AnyPlugin):
    """Base of plugins about other pods."""

    def filters(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        """Whether `filter` has anything to say about this pod among these others."""
        return False

    def filter(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Mask:
        """Which of the rows will do."""
        raise NotImplementedError

    def refusals(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Why the rows that `filter` left out will not do."""
        return self._refused(len(rows))

    def scores(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        """Whether `score` has anything to say about this pod among these others."""
        return False

    def score(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Ints:
        """How good each row is, 0 to 100. The rows are all the feasible ones."""
        raise NotImplementedError


def normalise_to_best(scores: Ints) -> Ints:
    """The best becomes 100, the others their share of it (plugins/helper/normalize_score.go)."""
    best = scores.max(initial=0)
    return scores * MAX_NODE_SCORE // best if best else scores


def normalise_reversed(scores: Ints) -> Ints:
    """0 becomes 100, the largest becomes 0."""
    return MAX_NODE_SCORE - normalise_to_best(scores)
