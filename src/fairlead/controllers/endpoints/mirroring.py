"""EndpointSlices for Endpoints that somebody else has written, so that whoever reads slices sees them, too.

Only for services without a selector. Source: pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.services import Endpoints, Service
from fairlead.controllers.actions import Actions
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.endpoints.backends import SERVICE_NAME, family_of
from fairlead.controllers.endpoints.slices import MANAGED_BY, grouped, service_of_slices, slices_of, write_slices
from fairlead.controllers.endpoints.triggers import LAST_CHANGE
from fairlead.controllers.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"

#: Not copied: what belongs to the Endpoints alone.
_UNMIRRORED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        LAST_CHANGE,
    }
)
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"

_decode = msgspec.json.Decoder().decode


def _same_name(world: World, old: Service | None, new: Service | None) -> Iterator[str]:
    either = new or old
    assert either is not None
    yield either.metadata.key


class MirroredSlices(Controller[Endpoints]):
    name = "endpoint-slice-mirroring-controller"
    queue_name = "endpoint_slice_mirroring"
    account = "endpointslicemirroring-controller"
    kind = ENDPOINTS
    watches = (Watch(SERVICES, _same_name), Watch(ENDPOINT_SLICES, service_of_slices(MANAGER)))

    def gone(self, key: str, world: World) -> Actions:
        namespace, _, name = key.partition("/")
        yield from write_slices(slices_of(world, MANAGER, namespace, name), [], {})

    def reconcile(self, obj: Endpoints, world: World) -> Actions:
        meta = obj.metadata
        groups = grouped(_endpoints(obj)) if _is_mirrored(obj, world) else []
        yield from write_slices(slices_of(world, MANAGER, meta.namespace, meta.name), groups, _metadata(obj))


def _is_mirrored(obj: Endpoints, world: World) -> bool:
    service = world.get(SERVICES, obj.metadata.key)
    is_own_business = obj.metadata.labels.get(SKIP) == "true" or _LEADER in obj.metadata.annotations
    return service is not None and not service.spec.selector and not is_own_business


def _endpoints(obj: Endpoints) -> Iterator[tuple[str, list[Obj], Obj]]:
    for subset in _decode(obj.subsets) or ():
        ports = [{"name": ""} | port for port in subset.get("ports") or ()]
        for name, is_ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(name) or ():
                endpoint: Obj = {"addresses": [address["ip"]], "conditions": {"ready": is_ready}}
                copied = {key: address[key] for key in ("hostname", "targetRef", "nodeName") if key in address}
                yield family_of(address["ip"]), ports, endpoint | copied


def _metadata(obj: Endpoints) -> Obj:
    meta = obj.metadata
    made: Obj = {
        "generateName": f"{meta.name}-",
        "namespace": meta.namespace,
        "labels": meta.labels | {SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
        "ownerReferences": [controller_reference(ENDPOINTS, obj)],
    }
    annotations = {key: value for key, value in meta.annotations.items() if key not in _UNMIRRORED}
    return made | ({"annotations": annotations} if annotations else {})
