"""Endpoints, the old form: all addresses of a service in one object, gathered by the ports that they have.

Sources: pkg/controller/endpoint, pkg/api/v1/endpoints (RepackSubsets).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from fairlead.api.errors import AlreadyExists, ApiError, is_namespace_terminating
from fairlead.api.event_types import WARNING
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.references import reference
from fairlead.api.services import Endpoints, Service, ServicePort
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, GiveWay, Patch
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.endpoints.backends import (
    HEADLESS,
    PODS_A_TURN,
    TargetPorts,
    addresses,
    backends,
    families,
    hostname,
    is_managed,
    pods_of,
    same_key,
    services_of,
    target,
)
from fairlead.controllers.endpoints.triggers import Triggers
from fairlead.controllers.kinds import ENDPOINTS, PODS, SERVICES

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
_ADDRESSES: Final = ("addresses", "notReadyAddresses")
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
#: So many addresses are told; of more, the annotation says that some are left out.
MOST_ADDRESSES: Final = 1000

_decode = msgspec.json.Decoder().decode


class ServiceEndpoints(Controller[Service]):
    name = "endpoint-controller"
    queue_name = "endpoint"
    account = "endpoint-controller"
    kind = SERVICES
    is_patient = True
    watches = (Watch(PODS, services_of), Watch(ENDPOINTS, same_key))

    def __init__(self) -> None:
        self._triggers = Triggers()

    def gone(self, key: str, world: World) -> Actions:
        self._triggers.forget(key)
        left = world.get(ENDPOINTS, key)
        if left is not None:  # those of a service without a selector go, too
            yield Delete(ENDPOINTS, left)

    def reconcile(self, obj: Service, world: World) -> Actions:
        if not is_managed(obj) or obj.metadata.is_terminating:
            return
        pods = pods_of(obj, world)
        trigger = self._triggers.annotation(obj, pods)
        subsets, is_cut = _cut((yield from _subsets(obj, pods)))
        trigger[OVER_CAPACITY] = "truncated" if is_cut else None
        labels = {key: value for key, value in obj.metadata.labels.items() if key != HEADLESS} | {MANAGED_BY: MANAGER}
        if obj.is_headless:
            labels[HEADLESS] = ""
        current = world.get(ENDPOINTS, obj.metadata.key)
        try:
            if current is None:
                yield from _create(obj, subsets, labels, trigger)
            else:
                yield from _change(current, subsets, labels, trigger)
        except AlreadyExists:
            raise
        except ApiError as error:
            if is_namespace_terminating(error):
                return
            verb = "create" if current is None else "update"
            text = f"Failed to {verb} endpoint {obj.metadata.key}: {error}"
            about = reference(current, ENDPOINTS.resource) if current is not None else None
            yield Emit(f"FailedTo{verb.title()}Endpoint", text, WARNING, about)
            raise


def _create(service: Service, subsets: list[Obj], labels: dict[str, str], trigger: dict[str, str | None]) -> Actions:
    meta = {"name": service.metadata.name, "namespace": service.metadata.namespace, "labels": labels}
    meta["annotations"] = {key: value for key, value in trigger.items() if value is not None}
    obj: Obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta}
    yield Create(ENDPOINTS, obj | ({"subsets": subsets} if subsets else {}))


def _change(current: Endpoints, subsets: list[Obj], labels: dict[str, str], trigger: dict[str, str | None]) -> Actions:
    patch: Obj = {}
    if (_decode(current.subsets) or []) != subsets:
        patch["subsets"] = subsets or None
    if current.metadata.annotations.get(OVER_CAPACITY) != trigger[OVER_CAPACITY]:
        patch["metadata"] = {}
    if current.metadata.labels != labels:
        removed = {key: None for key in current.metadata.labels if key not in labels}
        patch["metadata"] = {"labels": removed | labels}
    if patch:
        patch["metadata"] = patch.get("metadata", {}) | {"annotations": trigger}
        yield Patch(ENDPOINTS, current, patch)


def _subsets(service: Service, pods: Iterable[Pod]) -> Generator[Action, Any, list[Obj]]:
    """Addresses with the same ports together, everything in upstream's order."""
    unready_too = service.spec.publish_not_ready_addresses
    targets = TargetPorts(service, _ports)
    by_ports: dict[bytes, tuple[list[Obj], list[tuple[Obj, bool]]]] = {}
    for number, pod in enumerate(backends(pods, with_terminating=unready_too), 1):
        if number % PODS_A_TURN == 0:
            yield GiveWay()
        found = addresses(pod, families(service)[0])
        key, ports = targets.of(pod)
        if not found or (service.spec.ports and not ports):
            continue
        by_ports.setdefault(key, (ports, []))[1].append((_address(service, pod, found[0]), unready_too or pod.is_ready))
    return [_subset(ports, members) for _, (ports, members) in sorted(by_ports.items(), key=lambda item: item[0])]


def _subset(ports: list[Obj], members: Iterable[tuple[Obj, bool]]) -> Obj:
    ordered = sorted(members, key=lambda member: (member[0]["ip"], member[0]["targetRef"]["uid"]))
    entry: Obj = {
        "addresses": [address for address, is_ready in ordered if is_ready],
        "notReadyAddresses": [address for address, is_ready in ordered if not is_ready],
        "ports": ports,
    }
    return {name: value for name, value in entry.items() if value}


def _ports(targets: Iterable[tuple[ServicePort, int]]) -> tuple[bytes, list[Obj]]:
    """What tells them from other ports, and the ports in upstream's order."""
    found: list[tuple[bytes, Obj]] = []
    for port, number in targets:
        optional = {"name": port.name, "appProtocol": port.app_protocol}
        entry: Obj = {"port": number, "protocol": port.protocol}
        entry |= {name: value for name, value in optional.items() if value}
        found.append((_port_hash(entry), entry))
    found.sort(key=itemgetter(0))
    return b"".join(hash_ for hash_, _ in found), [entry for _, entry in found]


def _cut(subsets: Sequence[Obj]) -> tuple[list[Obj], bool]:
    """At most so many addresses, the ready ones first, of each subset in proportion; and whether any is left out."""
    ready, unready = (sum(len(subset.get(name, ())) for subset in subsets) for name in _ADDRESSES)
    if ready + unready <= MOST_ADDRESSES:
        return list(subsets), False
    cut, whole, most = _ADDRESSES[1], unready, MOST_ADDRESSES - ready
    if ready > MOST_ADDRESSES:
        cut, whole, most = _ADDRESSES[0], ready, MOST_ADDRESSES
        subsets = [{name: value for name, value in subset.items() if name != _ADDRESSES[1]} for subset in subsets]
    left, found = most, list[Obj]()
    for subset in subsets:
        some = subset.get(cut, [])
        kept = some[: min(math.ceil(len(some) / whole * most), left)]
        left -= len(kept)
        found.append({name: value for name, value in (subset | {cut: kept}).items() if value})
    return [subset for subset in found if any(name in subset for name in _ADDRESSES)], True


def _address(service: Service, pod: Pod, ip: str) -> Obj:
    optional: dict[str, Any] = {"hostname": hostname(service, pod), "nodeName": pod.spec.node_name}
    return {"ip": ip, "targetRef": target(pod)} | {name: value for name, value in optional.items() if value}


def _port_hash(port: Obj) -> bytes:
    """Upstream orders ports by the hash of how Go prints them."""
    application = port.get("appProtocol")
    printed = (
        f"(v1.EndpointPort){{Name:(string){port.get('name', '')} Port:(int32){port['port']} "
        f"Protocol:(v1.Protocol){port['protocol']} AppProtocol:(*string){application or '<nil>'}}}"
    )
    return hashlib.md5(printed.encode(), usedforsecurity=False).digest()
