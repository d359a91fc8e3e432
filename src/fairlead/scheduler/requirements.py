"""What a pod requires of a node: everything that decides where it fits, whatever other pods there are.

Thousands of pods come from few templates. Pods with the same requirements are equal to the scheduler, so masks and
scores are worked out once for them and kept; a pod costs one look-up by its encoded spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.devices import CLASS_RESOURCE_PREFIX
from fairlead.api.disks import Disk, disks_of
from fairlead.api.host_ports import HostPort, host_ports
from fairlead.api.node_affinity import NodeAffinity
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts, is_hugepages, is_pod_level_resource, pod_requests
from fairlead.api.quantity import Quantity, parse
from fairlead.api.scheduling import Container, ContainerStatus, Pod, PodStatus
from fairlead.api.taints import Toleration
from fairlead.caches import LruCache

#: What a container without a request counts for in scores (pkg/scheduler/util/pod_resources.go).
UNSAID: Final = {"cpu": "100m", "memory": "209715200"}

_RESTARTS_ALL: Final = frozenset({"RestartAllContainersOnContainerExits"})

#: Requirements that were not seen for longest are forgotten beyond this number; pods keep theirs.
REMEMBERED = 4096
#: Pods that take more to tell apart are remembered while they are there: what strangers send must not fill the memory.
LONGEST_KEY: Final = 16_384

_encode = msgspec.json.Encoder(order="deterministic").encode


class VolumeClaim(msgspec.Struct, frozen=True):
    """The claim behind a volume of a pod."""

    #: `namespace/name`
    key: str
    #: The pod, if the claim is made for it alone, once it is there.
    owner_key: str = ""
    owner_uid: str = ""

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


class DeviceClaim(msgspec.Struct, frozen=True):
    """A claim of devices that a pod names."""

    #: `namespace/name`; empty if it has not been made yet.
    key: str
    pod_key: str
    pod_uid: str
    #: By a template, for this pod alone.
    is_from_template: bool


class DeviceAmount(msgspec.Struct, frozen=True):
    """What one container requests of an extended resource, for which a class of devices may stand (KEP-5004)."""

    resource: str
    count: int
    container: str
    #: How a claim for it calls the request.
    request: str
    #: Among all containers, the init containers first.
    place: int
    #: It is over before those after it begin, and may use what they get.
    is_passing: bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodRequirements:
    """A pod as the plugins see it. Amounts are whole numbers: cpu in milli, everything else in units."""

    requests: dict[str, int]
    #: What it counts for in the scores of others once it is placed.
    nonzero_requests: dict[str, int]
    #: What it counts for in its own NodeResourcesFit score, where pod-level requests are not looked at.
    score_requests: dict[str, int]
    tolerations: tuple[Toleration, ...]
    node_selector: dict[str, str]
    node_affinity: NodeAffinity | None
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    container_count: int
    claims: tuple[VolumeClaim, ...] = ()
    disks: tuple[Disk, ...] = ()
    device_claims: tuple[DeviceClaim, ...] = ()
    device_amounts: tuple[DeviceAmount, ...] = ()
    #: What its node must declare that it can do.
    features: frozenset[str] = frozenset()
    _claim_keys: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._claim_keys = frozenset(claim.key for claim in self.claims)

    def has_claim(self, key: str) -> bool:
        """Whether the claim of that `namespace/name` is behind one of its volumes."""
        return key in self._claim_keys


class RequirementsCache:
    """All requirements seen lately, by their encoding."""

    def __init__(self) -> None:
        self._known: LruCache[bytes, PodRequirements] = LruCache(REMEMBERED)
        #: By the digest of a long encoding, as long as somebody has use for them: a pod changes several times.
        self._long: WeakValueDictionary[bytes, PodRequirements] = WeakValueDictionary()

    def of(self, pod: Pod) -> PodRequirements:
        """The requirements that all pods like this share."""
        spec, status = pod.spec, pod.status
        decisive: list[Any] = [
            spec.containers,
            spec.init_containers,
            _images_of_volumes(pod),
            claims_of(pod),
            tuple(disks_of(spec.volumes or ())),
            device_claims_of(pod),
            spec.overhead,
            spec.resources,
            spec.node_selector,
            spec.affinity and spec.affinity.node_affinity,
            spec.tolerations,
        ]
        if _is_granted_otherwise(pod):
            decisive += (status.container_statuses, status.init_container_statuses, is_resize_infeasible(pod))
            decisive += (status.resources, status.allocated_resources)
        key = _encode(decisive)
        if len(key) > LONGEST_KEY:
            return self._of_long(sha256(key).digest(), pod)
        found = self._known.get(key)
        if found is None:
            found = requirements_of(pod)
            self._known.put(key, found)
        return found

    def _of_long(self, digest: bytes, pod: Pod) -> PodRequirements:
        found = self._long.get(digest)
        if found is None:
            found = self._long[digest] = requirements_of(pod)
        return found


def requirements_of(pod: Pod) -> PodRequirements:
    """Work the requirements of one pod out."""
    spec = pod.spec
    containers = (*(spec.init_containers or ()), *spec.containers)
    plain = _plain_spec(pod)
    requests = pod_requests(plain)
    resources = plain.pop("resources", None)
    counted, nonzero = _counted(requests), _nonzero(plain, resources, requests)
    return PodRequirements(
        requests=counted,
        nonzero_requests=nonzero,
        score_requests=_counted(pod_requests(_with_unsaid(plain, UNSAID))) if resources else counted | nonzero,
        tolerations=spec.tolerations or (),
        node_selector=spec.node_selector or {},
        node_affinity=spec.affinity.node_affinity if spec.affinity else None,
        host_ports=host_ports(pod.spec.containers, pod.spec.init_containers or ()),
        images=_images(pod, containers),
        container_count=len(containers),
        claims=claims_of(pod),
        disks=tuple(disks_of(spec.volumes or ())),
        device_claims=device_claims_of(pod),
        device_amounts=device_amounts_of(pod),
        features=_features(containers),
    )


def _features(containers: Iterable[Container]) -> frozenset[str]:
    """What kubelets may be too old for, or told not to do (k8s.io/component-helpers/nodedeclaredfeatures)."""
    rules = (rule for container in containers for rule in container.restart_policy_rules or ())
    return _RESTARTS_ALL if any(rule.action == "RestartAllContainers" for rule in rules) else frozenset()


def _is_granted_otherwise(pod: Pod) -> bool:
    """Whether its node may say that it, or a container, has other resources than are asked for (in-place resize)."""
    if not pod.spec.node_name or pod.status.init_container_statuses or pod.status.resources is not None:
        return bool(pod.spec.node_name)
    asked = {container.name: container.resources.requests or {} for container in pod.spec.containers}
    return any(
        status.resources is not None
        and not (
            (status.resources.requests or {})
            == asked.get(status.name)
            == (status.allocated_resources or status.resources.requests or {})
        )
        for status in pod.status.container_statuses or ()
    )


def is_resize_infeasible(pod: Pod) -> bool:
    """The node will never grant the resize that the spec asks for."""
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def is_scalar(name: str) -> bool:
    """Extended resources, huge pages and attachable volumes (`IsScalarResourceName`)."""
    if "/" in name:
        return not name.startswith("requests.")
    return is_hugepages(name) or name.startswith("attachable-volumes-")


def amount_of(name: str, quantity: Quantity) -> int:
    """A quantity in the unit that the scheduler counts that resource in."""
    return quantity.milli if name == "cpu" else quantity.units


def is_counted(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or is_scalar(name)


def _counted(amounts: Amounts) -> dict[str, int]:
    counted = ((name, amount_of(name, quantity)) for name, quantity in amounts.items() if is_counted(name))
    return {name: amount for name, amount in counted if amount > 0}


def _nonzero(plain: Obj, resources: Obj | None, requests: Amounts) -> dict[str, int]:
    """cpu and memory with the defaults for containers that say nothing, unless the pod level says it for them."""
    has_pod_level = any(is_pod_level_resource(name) for name in (resources or {}).get("requests") or ())
    unsaid = {name: text for name, text in UNSAID.items() if name not in requests} if has_pod_level else UNSAID
    spec = _with_unsaid(plain, unsaid, UNSAID) | ({"resources": resources} if resources else {})
    return {name: amount for name, amount in _counted(pod_requests(spec)).items() if name in UNSAID}


def _with_unsaid(spec: Obj, unsaid: dict[str, str], names: Iterable[str] | None = None) -> Obj:
    """The spec with these requests for every container that does not name the resource; of those that it names maybe
    only these.
    """
    changed = dict(spec)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            changed[kind] = [
                container | {"resources": {"requests": unsaid | _requests(container, names)}}
                for container in spec[kind]
            ]
    return changed


def _requests(container: Obj, names: Iterable[str] | None = None) -> dict[str, str]:
    """Of a container, or of a pod as a whole; of these resources, or of all."""
    requests: dict[str, str] = (container.get("resources") or {}).get("requests") or {}
    return requests if names is None else {name: requests[name] for name in names if name in requests}


def _plain_spec(pod: Pod) -> Obj:
    """The spec as a dict, with what the node has granted to each container, and to all, where that counts instead."""
    spec: Obj = msgspec.to_builtins(pod.spec)
    granted = {status.name: status for status in (*(pod.status.container_statuses or ()), *_sidecar_statuses(pod))}
    if pod.spec.node_name and granted:
        infeasible = is_resize_infeasible(pod)
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            status = granted.get(container.get("name", ""))
            if status is not None and status.resources is not None:
                container["resources"] = {"requests": _effective(_requests(container), status, infeasible)}
    if pod.spec.node_name and pod.status.resources is not None and (asked := _requests(spec)):
        effective = _effective(asked, pod.status, is_resize_infeasible(pod))
        spec["resources"] = {"requests": {name: effective.get(name, "0") for name in asked}}
    return spec


def _sidecar_statuses(pod: Pod) -> list[ContainerStatus]:
    sidecars = {container.name for container in pod.spec.init_containers or () if container.restart_policy == "Always"}
    return [status for status in pod.status.init_container_statuses or () if status.name in sidecars]


def _effective(asked: dict[str, str], status: ContainerStatus | PodStatus, infeasible: bool) -> dict[str, str]:
    """The largest of what is asked, granted and in force; a resize that cannot be granted does not count."""
    sources = [(status.resources.requests if status.resources else None) or {}, status.allocated_resources or {}]
    if not infeasible:
        sources.append(asked)
    effective: dict[str, str] = {}
    for source in sources:
        for name, text in source.items():
            if name not in effective or parse(text) > parse(effective[name]):
                effective[name] = text
    return effective


def _images(pod: Pod, containers: tuple[Container, ...]) -> tuple[str, ...]:
    """Every image the pod names, container by container."""
    return tuple(
        normalized_image(name) for name in (*(container.image for container in containers), *_images_of_volumes(pod))
    )


def _images_of_volumes(pod: Pod) -> tuple[str, ...]:
    return tuple(volume.image.reference for volume in pod.spec.volumes or () if volume.image is not None)


def claims_of(pod: Pod) -> tuple[VolumeClaim, ...]:
    """The claims behind the pod's volumes."""
    meta, found = pod.metadata, list[VolumeClaim]()
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.append(VolumeClaim(f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}"))
        elif volume.ephemeral is not None:
            found.append(VolumeClaim(f"{meta.namespace}/{meta.name}-{volume.name}", meta.key, meta.uid))
    return tuple(found)


def device_claims_of(pod: Pod) -> tuple[DeviceClaim, ...]:
    """The claims of devices that the pod needs."""
    if not pod.spec.resource_claims:
        return ()
    meta, found = pod.metadata, list[DeviceClaim]()
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    for named in pod.spec.resource_claims:
        name = made.get(named.name, "") if named.is_from_template else named.resource_claim_name
        if name is not None:  # whoever made the claims found that this one is not needed
            found.append(DeviceClaim(name and f"{meta.namespace}/{name}", meta.key, meta.uid, named.is_from_template))
    return tuple(found)


def device_amounts_of(pod: Pod) -> tuple[DeviceAmount, ...]:
    """Container by container, the init containers first."""
    found, init = [], pod.spec.init_containers or ()
    for place, container in enumerate((*init, *pod.spec.containers)):
        is_passing = place < len(init) and container.restart_policy != "Always"
        requests = container.resources.requests or {}
        for index, name in enumerate(sorted(requests)):
            if _may_be_devices(name) and (count := parse(requests[name]).units) > 0:
                request = f"container-{place}-request-{index}"
                found.append(DeviceAmount(name, count, container.name, request, place, is_passing))
    return tuple(found)


def _may_be_devices(name: str) -> bool:
    """A resource of somebody else's domain, or a class of devices as a resource (IsDRAExtendedResourceName)."""
    if name.startswith(CLASS_RESOURCE_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def normalized_image(name: str) -> str:
    """With the tag that is meant where none is written, as nodes report it."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
