"""What ResourceClaims ask for, and what their status says was given.

Source: pkg/apis/resource/{types.go,validation} (1.36).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api import names
from fairlead.api.devices import MOST_ALTERNATIVES, MOST_CONSUMERS
from fairlead.api.fields import Errors, Word, validate_choice
from fairlead.api.objects import Obj
from fairlead.kinds.device_names import (
    TAINT_EFFECTS,
    validate_binding,
    validate_count,
    validate_fully_qualified_name,
    validate_pool_name,
)
from fairlead.kinds.device_selectors import are_bounded, validate_selectors
from fairlead.kinds.podspec.affinity import validate_node_selector
from fairlead.kinds.rules import check, validate_conditions, validate_driver_name, validate_unchanged, validate_unique

EXACT_COUNT: Final = "ExactCount"

_MOST_REQUESTS: Final = 32
_MOST_CONFIGS: Final = 32
_MOST_CONDITIONS: Final = 8
_MOST_IPS: Final = 16
_JSON_MAX: Final = 10 * 1024
_INTERFACE_MAX: Final = 256
_HARDWARE_MAX: Final = 128
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: The requests of a claim by name, each with the names of its alternatives.
_Requests = Mapping[str, frozenset[str]]


# what is asked for ---------------------------------------------------------------------------------------------


def validate_claim_spec(spec: Obj, path: str, errors: Errors) -> None:
    devices = spec.get("devices") or {}
    if not are_bounded(_selectors(devices), path, errors):
        return
    path = f"{path}.devices"
    requests, named = devices.get("requests") or [], _request_names(devices)
    if validate_count(requests, _MOST_REQUESTS, f"{path}.requests", errors):
        for index, request in enumerate(requests):
            _validate_request(request, f"{path}.requests[{index}]", errors)
        validate_unique((request.get("name", "") for request in requests), f"{path}.requests", errors)
    constraints = devices.get("constraints") or []
    if validate_count(constraints, _MOST_CONFIGS, f"{path}.constraints", errors):
        for index, constraint in enumerate(constraints):
            _validate_constraint(constraint, f"{path}.constraints[{index}]", named, errors)
    _validate_configs(devices.get("config") or [], _MOST_CONFIGS, f"{path}.config", named, errors)


def alternatives(devices: Obj) -> Iterator[Obj]:
    """What each request may be fulfilled by."""
    for request in devices.get("requests") or ():
        if (exactly := request.get("exactly")) is not None:
            yield exactly
        yield from request.get("firstAvailable") or ()


def _selectors(devices: Obj) -> Iterator[Obj]:
    return (selector for asked in alternatives(devices) for selector in asked.get("selectors") or ())


def _request_names(devices: Obj) -> _Requests:
    return {
        request.get("name", ""): frozenset(each.get("name", "") for each in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def _validate_request(request: Obj, path: str, errors: Errors) -> None:
    check(errors, f"{path}.name", request.get("name", ""), names.dns1123_label)
    exactly, first_available = request.get("exactly"), request.get("firstAvailable") or []
    needed = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not first_available:
        errors.required(path, needed)
    elif exactly is not None and first_available:
        errors.invalid(path, None, f"{needed}, but multiple fields are set")
    elif exactly is not None:
        _validate_asked(exactly, f"{path}.exactly", errors)
    else:
        path = f"{path}.firstAvailable"
        if validate_count(first_available, MOST_ALTERNATIVES, path, errors):
            for index, asked in enumerate(first_available):
                check(errors, f"{path}[{index}].name", asked.get("name", ""), names.dns1123_label)
                _validate_asked(asked, f"{path}[{index}]", errors)
            validate_unique((asked.get("name", "") for asked in first_available), path, errors)


def _validate_asked(asked: Obj, path: str, errors: Errors) -> None:
    if not (class_name := asked.get("deviceClassName", "")):
        errors.required(f"{path}.deviceClassName")
    else:
        check(errors, f"{path}.deviceClassName", class_name, names.dns1123_subdomain)
    validate_selectors(asked.get("selectors") or [], f"{path}.selectors", errors)
    mode, count = asked.get("allocationMode", ""), asked.get("count") or 0
    if mode == "All":
        if count:
            errors.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == EXACT_COUNT:
        if count <= 0:
            errors.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        errors.not_supported(f"{path}.allocationMode", Word(mode), ("All", EXACT_COUNT))
    _validate_tolerations(asked, path, errors)


def _validate_tolerations(asked: Obj, path: str, errors: Errors) -> None:
    for index, toleration in enumerate(asked.get("tolerations") or ()):
        _validate_toleration(toleration, f"{path}.tolerations[{index}]", errors)


def _validate_toleration(toleration: Obj, path: str, errors: Errors) -> None:
    operator, value, effect = (toleration.get(field, "") for field in ("operator", "value", "effect"))
    if key := toleration.get("key"):
        check(errors, f"{path}.key", key, names.qualified_name)
    if operator == "Exists":
        if value:
            errors.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        check(errors, f"{path}.value", value, names.label_value)
    else:
        validate_choice(Word(operator), ("Equal", "Exists"), f"{path}.operator", errors)
    if effect and effect not in TAINT_EFFECTS:
        errors.not_supported(f"{path}.effect", Word(effect), TAINT_EFFECTS)


def _validate_constraint(constraint: Obj, path: str, requests: _Requests, errors: Errors) -> None:
    _validate_references(constraint, path, requests, errors)
    if (name := constraint.get("matchAttribute")) is not None:
        validate_fully_qualified_name(name, f"{path}.matchAttribute", errors)
    elif (name := constraint.get("distinctAttribute")) is not None:
        validate_fully_qualified_name(name, f"{path}.distinctAttribute", errors)
    else:
        text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        errors.required(path, text)


def _validate_references(obj: Obj, path: str, requests: _Requests, errors: Errors) -> None:
    found, path = obj.get("requests") or [], f"{path}.requests"
    if validate_count(found, _MOST_REQUESTS, path, errors):
        for index, name in enumerate(found):
            _validate_reference(name, f"{path}[{index}]", requests, errors)
        validate_unique(found, path, errors)


def _validate_reference(name: str, path: str, requests: _Requests, errors: Errors) -> None:
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        errors.invalid(path, name, _REFERENCE)
        return
    for part in (request, alternative) if slash else (request,):
        check(errors, path, part, names.dns1123_label)
    if request not in requests or (slash and alternative not in requests[request]):
        errors.invalid(path, name, _REFERENCE)


def _validate_configs(configs: list[Obj], most: int, path: str, requests: _Requests, errors: Errors) -> None:
    if validate_count(configs, most, path, errors):
        for index, config in enumerate(configs):
            _validate_references(config, f"{path}[{index}]", requests, errors)
            validate_config(config, f"{path}[{index}]", errors)


def validate_config(config: Obj, path: str, errors: Errors, *, is_stored: bool = False) -> None:
    """What is for a driver to read; how long it is was decided when it was stored."""
    if (opaque := config.get("opaque")) is None:
        errors.required(f"{path}.opaque")
        return
    validate_driver_name(opaque.get("driver", ""), f"{path}.opaque.driver", errors)
    _validate_json(opaque.get("parameters"), f"{path}.opaque.parameters", errors, is_stored=is_stored)


def _validate_json(value: Any, path: str, errors: Errors, *, is_stored: bool = False) -> None:
    if value is None:
        errors.required(path)
    elif not is_stored and len(msgspec.json.encode(value)) > _JSON_MAX:
        errors.too_long(path, _JSON_MAX)
    elif not isinstance(value, dict):
        errors.invalid(path, "<value omitted>", "must be a valid JSON object")


# what was given ------------------------------------------------------------------------------------------------


def validate_claim_status(obj: Obj, old: Obj, errors: Errors) -> None:
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation, allocated_before = status.get("allocation"), before.get("allocation")
    consumers = status.get("reservedFor") or []
    if validate_count(consumers, MOST_CONSUMERS, "status.reservedFor", errors):
        _validate_consumers(consumers, errors)
    _validate_devices(status.get("devices") or [], allocation or {}, errors)
    if consumers and allocation is None:
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif consumers and obj["metadata"].get("deletionTimestamp"):
        known = {_consumer(each) for each in before.get("reservedFor") or ()}
        if any(_consumer(each) not in known for each in consumers):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.forbidden("status.reservedFor", text)
    if allocation is not None and allocated_before is not None:
        validate_unchanged(allocation, allocated_before, "status.allocation", errors)
    elif allocation is not None:
        _validate_allocation(allocation, "status.allocation", _request_names(obj["spec"].get("devices") or {}), errors)


def drop_deallocated(obj: Obj, old: Obj) -> None:
    """What is told of devices goes with their allocation (`dropDeallocatedStatusDevices`)."""
    status = obj.get("status") or {}
    gone = _allocated(old.get("status") or {}) - _allocated(status)
    if devices := status.get("devices"):
        status["devices"] = [device for device in devices if _without_share(device) not in gone]
        if not status["devices"]:
            del status["devices"]


def _allocated(status: Obj) -> set[tuple[str, ...]]:
    return {_without_share(result) for result in results_of(status.get("allocation") or {})}


def results_of(allocation: Obj) -> Sequence[Obj]:
    """The devices that are allocated."""
    results: Sequence[Obj] = (allocation.get("devices") or {}).get("results") or ()
    return results


def _without_share(result: Obj) -> tuple[str, ...]:
    return tuple(result.get(field, "") for field in ("driver", "pool", "device"))


def _consumer(reference: Obj) -> tuple[str, ...]:
    return tuple(reference.get(field, "") for field in ("apiGroup", "resource", "name", "uid"))


def _validate_consumers(consumers: list[Obj], errors: Errors) -> None:
    for index, consumer in enumerate(consumers):
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                errors.required(f"status.reservedFor[{index}].{field}")
    validate_unique((consumer.get("uid", "") for consumer in consumers), "status.reservedFor", errors)


def _device(result: Obj) -> str:
    """Which device it is, or which share of one."""
    found = "/".join(result.get(field, "") for field in ("driver", "pool", "device"))
    return found if (share := result.get("shareID")) is None else f"{found}/{share}"


def _validate_devices(devices: list[Obj], allocation: Obj, errors: Errors) -> None:
    allocated = {_device(result) for result in results_of(allocation)}
    for index, device in enumerate(devices):
        path = f"status.devices[{index}]"
        _validate_device_name(device, path, errors)
        if _device(device) not in allocated:
            errors.invalid(path, _device(device), "must be an allocated device in the claim")
        conditions = device.get("conditions") or []
        if validate_count(conditions, _MOST_CONDITIONS, f"{path}.conditions", errors):
            validate_conditions(conditions, f"{path}.conditions", errors)
        if device.get("data") is not None:
            _validate_json(device["data"], f"{path}.data", errors)
        _validate_network(device.get("networkData") or {}, f"{path}.networkData", errors)
    validate_unique(map(_device, devices), "status.devices", errors)


def _validate_device_name(result: Obj, path: str, errors: Errors) -> None:
    validate_driver_name(result.get("driver", ""), f"{path}.driver", errors)
    validate_pool_name(result.get("pool", ""), f"{path}.pool", errors)
    check(errors, f"{path}.device", result.get("device", ""), names.dns1123_label)
    if (share := result.get("shareID")) is not None:
        _validate_uuid(share, f"{path}.shareID", errors)


def _validate_uuid(text: str, path: str, errors: Errors) -> None:
    if len(text) != 36:
        errors.invalid(path, text, f"error validating uid: invalid UUID length: {len(text.encode())}")
    elif not _UUID.fullmatch(text.lower()):
        errors.invalid(path, text, "error validating uid: invalid UUID format")
    elif not _UUID.fullmatch(text):
        form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        errors.invalid(path, text, f"uid must be in RFC 4122 normalized form, {form}")


def _validate_network(data: Obj, path: str, errors: Errors) -> None:
    for field, most in (("interfaceName", _INTERFACE_MAX), ("hardwareAddress", _HARDWARE_MAX)):
        if len(data.get(field, "").encode()) > most:
            errors.too_long(f"{path}.{field}", most)
    addresses = data.get("ips") or []
    if validate_count(addresses, _MOST_IPS, f"{path}.ips", errors):
        for index, address in enumerate(addresses):
            _validate_interface_address(address, f"{path}.ips[{index}]", errors)
        validate_unique(addresses, f"{path}.ips", errors)


def _validate_interface_address(text: str, path: str, errors: Errors) -> None:
    """An address with the length of its network's prefix, in the one way of writing it."""
    try:
        found = ipaddress.ip_interface(text) if "/" in text and "%" not in text else None
    except ValueError:
        found = None
    if found is None or not text.rpartition("/")[2].isdecimal():
        errors.invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")
    elif str(found) != text:
        errors.invalid(path, text, f'must be in canonical form ("{found}")')


def _validate_allocation(allocation: Obj, path: str, requests: _Requests, errors: Errors) -> None:
    devices, here = allocation.get("devices") or {}, f"{path}.devices"
    results = devices.get("results") or []
    if validate_count(results, _MOST_REQUESTS, f"{here}.results", errors):
        for index, result in enumerate(results):
            _validate_result(result, f"{here}.results[{index}]", requests, errors)
    configs = devices.get("config") or []
    if len(configs) <= 2 * _MOST_CONFIGS:
        for index, config in enumerate(configs):
            validate_choice(
                Word(config.get("source", "")),
                ("FromClaim", "FromClass"),
                f"{here}.config[{index}].source",
                errors,
            )
    _validate_configs(configs, 2 * _MOST_CONFIGS, f"{here}.config", requests, errors)
    if (selector := allocation.get("nodeSelector")) is not None:
        validate_node_selector(selector, f"{path}.nodeSelector", errors)


def _validate_result(result: Obj, path: str, requests: _Requests, errors: Errors) -> None:
    _validate_reference(result.get("request", ""), f"{path}.request", requests, errors)
    _validate_device_name(result, path, errors)
    validate_binding(result, path, errors)
    _validate_tolerations(result, path, errors)
