"""What is written of an allocation: `status.allocation` of a claim (AllocationResult)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.api.devices import ClassConfiguration, ResourceClaim
from fairlead.api.node_affinity import NAME_FIELD, NodeSelector
from fairlead.api.objects import Obj
from fairlead.runtime import rng
from fairlead.scheduler.devices.allocator import Chosen, ClaimDevices, Way


def allocation_of(claim: ResourceClaim, devices: ClaimDevices, node: str) -> Obj:
    """The devices, with what is configured of them and the nodes where they can be reached."""
    found: Obj = {"devices": {"results": [_result(chosen) for chosen in devices.chosen]}}
    if configs := _configs(claim, devices.fulfilled):
        found["devices"]["config"] = configs
    selector = _selector(devices.chosen, node)
    return found | ({"nodeSelector": selector} if selector is not None else {})


def _result(chosen: Chosen) -> Obj:
    device, asked = chosen.candidate.device, chosen.asked
    driver, pool, name = chosen.candidate.id
    found: Obj = {"request": chosen.request, "driver": driver, "pool": pool, "device": name}
    optional: Obj = {
        "adminAccess": asked.admin_access or None,
        "tolerations": _plain(asked.tolerations),
        "bindingConditions": list(device.binding_conditions or ()),
        "bindingFailureConditions": list(device.binding_failure_conditions or ()),
        "shareID": rng.uid() if chosen.is_share else None,
        "consumedCapacity": {name: str(amount) for name, amount in chosen.consumed.items()},
    }
    return found | {name: value for name, value in optional.items() if value}


# --- configuration ----------------------------------------------------------------------------------------------------


def _configs(claim: ResourceClaim, fulfilled: Sequence[Way]) -> list[Obj]:
    """That of the classes, each once for all requests of it, and then that of the claim, for those that it is about."""
    asked = claim.spec.devices
    names_of: dict[str, list[str]] = {}
    for way in fulfilled:
        names_of.setdefault(way.class_.metadata.name, []).append(way.name)
    classes = {way.class_.metadata.name: way.class_ for way in fulfilled}
    found = [
        _config("FromClass", names, config)
        for name, names in names_of.items()
        for config in classes[name].spec.config or ()
    ]
    for config in asked.config or ():
        wanted = list(config.requests or ())
        if not wanted:
            found.append(_config("FromClaim", wanted, config))
            continue
        for request, way in zip(asked.requests or (), fulfilled, strict=True):
            if request.name in wanted or way.name in wanted:
                found.append(_config("FromClaim", wanted, config))
    return found


def _config(source: str, requests: list[str], config: ClassConfiguration) -> Obj:
    return {"source": source} | ({"requests": requests} if requests else {}) | {"opaque": config.opaque}


# --- where the devices are --------------------------------------------------------------------------------------------


def _selector(results: Sequence[Chosen], node: str) -> Obj | None:
    """The nodes from which all of the devices can be reached; None for all nodes."""
    terms: Obj = {}
    for chosen in results:
        place = _place(chosen)
        if place.node_name is not None or chosen.candidate.device.binds_to_node:
            alone = {"key": NAME_FIELD, "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [alone]}]}
        selector: NodeSelector | None = place.node_selector
        for term in (selector.node_selector_terms or ())[:1] if selector is not None else ():
            for kind, requirements in _plain(term).items():
                known = terms.setdefault(kind, [])
                known += [requirement for requirement in requirements or () if requirement not in known]
    return {"nodeSelectorTerms": [terms]} if terms else None


def _plain(view: Any) -> Any:
    """As it is written."""
    return msgspec.json.decode(msgspec.json.encode(view))


def _place(chosen: Chosen) -> Any:
    """What says where the device can be reached: it itself, or its slice."""
    spec = chosen.candidate.offered.slice.spec
    return chosen.candidate.device if spec.per_device_node_selection else spec
