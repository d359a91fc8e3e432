"""The EndpointSlices of a service with a selector (pkg/controller/endpointslice)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.services import Service, ServicePort
from fairlead.controllers.actions import Actions, GiveWay
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.endpoints.backends import (
    HEADLESS,
    PODS_A_TURN,
    SERVICE_NAME,
    TargetPorts,
    addresses,
    backends,
    families,
    hostname,
    is_managed,
    pods_of,
    services_of,
    target,
)
from fairlead.controllers.endpoints.slices import (
    MANAGED_BY,
    PortGroup,
    grouped,
    service_of_slices,
    slices_of,
    write_slices,
)
from fairlead.controllers.endpoints.triggers import Triggers
from fairlead.controllers.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from fairlead.controllers.pods import pods_on

MANAGER: Final = "endpointslice-controller.k8s.io"
ZONE: Final = "topology.kubernetes.io/zone"

_SAME_NODE: Final = "PreferSameNode"
_NEAR: Final = ("PreferClose", "PreferSameZone", _SAME_NODE)

_TOPOLOGY: Final = "service.kubernetes.io/topology-mode"
_OLD_TOPOLOGY: Final = "service.kubernetes.io/topology-aware-hints"

_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


def _services_on(world: World, old: Node | None, new: Node | None) -> Iterator[str]:
    """The services of the pods of a node that came, went or moved to another zone."""
    if old is not None and new is not None and old.metadata.labels.get(ZONE) == new.metadata.labels.get(ZONE):
        return
    either = new or old
    assert either is not None
    for pod in pods_on(world, either.metadata.name):
        yield from services_of(world, None, pod)


class ServiceSlices(Controller[Service]):
    name = "endpoint-slice-controller"
    queue_name = "endpoint_slice"
    account = "endpointslice-controller"
    kind = SERVICES
    is_patient = True
    watches = (Watch(PODS, services_of), Watch(NODES, _services_on), Watch(ENDPOINT_SLICES, service_of_slices(MANAGER)))

    def __init__(self) -> None:
        self._triggers = Triggers()

    def concerns(self, old: Service | None, new: Service | None, world: World) -> bool:
        return new is None or is_managed(new)

    def gone(self, key: str, world: World) -> Actions:
        self._triggers.forget(key)
        yield from ()

    def reconcile(self, obj: Service, world: World) -> Actions:
        if not is_managed(obj) or obj.metadata.is_terminating:
            return
        wanted = families(obj)
        pods = pods_of(obj, world)
        trigger = self._triggers.annotation(obj, pods)
        targets, found = TargetPorts(obj, _ports), list[tuple[str, list[Obj], Obj]]()
        for begin in range(0, len(pods), PODS_A_TURN):
            found += _endpoints(obj, pods[begin : begin + PODS_A_TURN], world, targets)
            if begin:
                yield GiveWay()
        groups = grouped(found)
        empty = [family for family in wanted if not any(group.family == family for group in groups)]
        groups += [PortGroup(family, []) for family in empty]
        existing = slices_of(world, MANAGER, obj.metadata.namespace, obj.metadata.name)
        yield from write_slices(existing, groups, _metadata(obj), trigger)


def _endpoints(
    service: Service, pods: Iterable[Pod], world: World, targets: TargetPorts[list[Obj]]
) -> Iterator[tuple[str, list[Obj], Obj]]:
    for pod in backends(pods, with_terminating=True):
        node = world.get(NODES, pod.spec.node_name) if pod.spec.node_name else None
        if node is None and pod.spec.node_name and not service.spec.publish_not_ready_addresses:
            continue  # the node may be gone for good, and the pod with it
        for family in families(service):
            found = addresses(pod, family)
            if found:
                yield family, targets.of(pod), _endpoint(service, pod, node, found)


def _ports(targets: Iterable[tuple[ServicePort, int]]) -> list[Obj]:
    found: list[Obj] = []
    for port, number in targets:
        entry: Obj = {"name": port.name, "protocol": port.protocol, "port": number}
        found.append(entry | ({"appProtocol": port.app_protocol} if port.app_protocol else {}))
    return found


def _endpoint(service: Service, pod: Pod, node: Node | None, found: list[str]) -> Obj:
    serving, terminating = pod.is_ready, pod.metadata.is_terminating
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    endpoint: Obj = {
        "addresses": found,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target(pod),
    }
    optional = {
        "hostname": hostname(service, pod),
        "nodeName": pod.spec.node_name,
        "zone": node.metadata.labels.get(ZONE, "") if node is not None else "",
    }
    endpoint |= {name: value for name, value in optional.items() if value}
    hints = _hints(service, endpoint) if ready else {}
    return endpoint | ({"hints": hints} if hints else {})


def _hints(service: Service, endpoint: Obj) -> Obj:
    """For whom the endpoint is meant, where the service wants its traffic to stay near (KEP-4444, KEP-3015).

    Hints by the older annotation, which spreads zones by the CPUs that they have, are not given.
    """
    near = service.spec.traffic_distribution
    annotations = service.metadata.annotations
    if near not in _NEAR or annotations.get(_OLD_TOPOLOGY, annotations.get(_TOPOLOGY)) in ("Auto", "auto"):
        return {}
    places = [("forZones", "zone")] + ([("forNodes", "nodeName")] if near == _SAME_NODE else [])
    return {name: [{"name": endpoint[field]}] for name, field in places if field in endpoint}


def _metadata(service: Service) -> Obj:
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if service.is_headless:
        labels[HEADLESS] = ""
    name = service.metadata.name
    return {
        "generateName": f"{name}-",
        "namespace": service.metadata.namespace,
        "labels": labels | {SERVICE_NAME: name, MANAGED_BY: MANAGER},
        "ownerReferences": [controller_reference(SERVICES, service)],
    }
