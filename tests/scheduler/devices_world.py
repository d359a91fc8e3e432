"""Slices, classes and claims of devices in short form."""

from __future__ import annotations

from typing import Any

from fairlead.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from fairlead.api.encoded import encoded

Obj = dict[str, Any]

DRIVER = "gpu.example.com"


def slice_obj(name: str, *devices: str | Obj, node: str = "", **more: Any) -> Obj:
    """A slice of that pool, of which it is the only one, for one node or, by `more`, for others."""
    pool = {"name": name, "generation": more.pop("generation", 1), "resourceSliceCount": more.pop("of", 1)}
    given = [{"name": device} if isinstance(device, str) else device for device in devices]
    spec = {"driver": more.pop("driver", DRIVER), "pool": pool, "devices": given} | ({"nodeName": node} if node else {})
    return {"metadata": {"name": more.pop("called", f"{name}-slice")}, "spec": spec | more}


def device(name: str, *, memory: str = "", **attributes: Any) -> Obj:
    """A device; attributes are texts, numbers or flags, of the driver's own domain."""
    kinds = {bool: "bool", int: "int", str: "string"}
    told = {key: {kinds[type(value)]: value} for key, value in attributes.items()}
    capacity = {"capacity": {"memory": {"value": memory}}} if memory else {}
    return {"name": name, "attributes": told} | capacity


def class_obj(name: str = "gpu", *expressions: str, **more: Any) -> Obj:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors} | more}


def asked(class_name: str = "gpu", count: int = 1, *expressions: str, **more: Any) -> Obj:
    """What one request, or one alternative, asks for."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    mode = {"allocationMode": "ExactCount", "count": count} if count else {"allocationMode": "All"}
    return {"deviceClassName": class_name, "selectors": selectors} | mode | more


def claim_obj(name: str, *requests: Obj, constraints: tuple[Obj, ...] = (), **more: Any) -> Obj:
    """A claim for one device, or with these requests, which are called r0, r1 …"""
    given = []
    for number, request in enumerate(requests or (asked(),)):
        request = request if "firstAvailable" in request else {"exactly": request}
        given.append({"name": f"r{number}"} | request)
    devices = {"requests": given, "constraints": list(constraints)} | more
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def first_of(*alternatives: Obj) -> Obj:
    return {"firstAvailable": [{"name": f"a{number}"} | asked for number, asked in enumerate(alternatives)]}


def named_claims(*names: str) -> list[Obj]:
    """`resourceClaims` of a pod."""
    return [{"name": name, "resourceClaimName": name} for name in names]


def published(obj: Obj) -> ResourceSlice:
    return encoded(obj).view(ResourceSlice)


def of_class(obj: Obj) -> DeviceClass:
    return encoded(obj).view(DeviceClass)


def claim(obj: Obj) -> ResourceClaim:
    return encoded(obj).view(ResourceClaim)
