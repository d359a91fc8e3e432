"""Which devices a ResourceSlice may publish.

Source: pkg/apis/resource/{types.go,validation} (1.36).
"""

from __future__ import annotations

import re
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors, Word
from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, parse
from fairlead.kinds.device_names import (
    MOST_ATTRIBUTES,
    TAINT_EFFECTS,
    VALUE_MAX,
    at_key,
    validate_binding,
    validate_count,
    validate_pool_name,
    validate_qualified_name,
)
from fairlead.kinds.podspec.affinity import validate_node_selector
from fairlead.kinds.rules import check, is_same, validate_driver_name, validate_unique

_MOST_DEVICES: Final = 128
#: Where any device has taints or consumes counters.
_MOST_ADVANCED_DEVICES: Final = 64
_MOST_COUNTER_SETS: Final = 8
_MOST_COUNTERS: Final = 32
_MOST_CONSUMED_SETS: Final = 2
_MOST_TAINTS: Final = 16
_MOST_VALID_VALUES: Final = 10
_NANOS: Final = 10**9

_VALUES: Final = ("bool", "int", "string", "version")
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
_PER_DEVICE: Final = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
_PRERELEASE: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def validate_slice_spec(spec: Obj, old: Obj | None, errors: Errors) -> None:
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    validate_driver_name(spec.get("driver", ""), "spec.driver", errors)
    _validate_pool(spec.get("pool") or {}, "spec.pool", errors)
    _validate_nodes_of_slice(spec, errors)
    if counters and devices:
        errors.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _validate_devices(spec, devices or [], old, errors)
    if validate_count(counters or [], _MOST_COUNTER_SETS, "spec.sharedCounters", errors):
        for index, found in enumerate(counters or ()):
            _validate_counters(found, "name", f"spec.sharedCounters[{index}]", errors)
        validate_unique((found.get("name", "") for found in counters or ()), "spec.sharedCounters", errors)


def _validate_pool(pool: Obj, path: str, errors: Errors) -> None:
    validate_pool_name(pool.get("name", ""), f"{path}.name", errors)
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        errors.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if (generation := pool.get("generation") or 0) < 0:
        errors.invalid(f"{path}.generation", generation, "must be greater than or equal to zero")


# nodes ---------------------------------------------------------------------------------------------------------


def _validate_nodes_of_slice(spec: Obj, errors: Errors) -> None:
    said = _nodes_said(spec, "spec", "must be either unset or set to a non-empty string", errors)
    selector = spec.get("nodeSelector")
    if selector is not None and len(terms := selector.get("nodeSelectorTerms") or []) != 1:
        path = "spec.nodeSelector.nodeSelectorTerms"
        errors.invalid(path, terms or None, "must have exactly one node selector term")
    said += _flag_said(spec, "perDeviceNodeSelection", "spec", errors)
    needed = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not said:
        errors.required("spec", needed)
    elif len(said) > 1:
        errors.invalid("spec", f"{{{', '.join(said)}}}", f"{needed}, but multiple fields are set")


def _nodes_said(obj: Obj, path: str, empty_name: str, errors: Errors) -> list[str]:
    """The fields that say from which nodes something is reached."""
    said = []
    if name := obj.get("nodeName"):
        said.append("`nodeName`")
        check(errors, f"{path}.nodeName", name, names.dns1123_subdomain)
    elif name is not None:
        errors.invalid(f"{path}.nodeName", name, empty_name)
    if (selector := obj.get("nodeSelector")) is not None:
        said.append("`nodeSelector`")
        validate_node_selector(selector, f"{path}.nodeSelector", errors)
    return said + _flag_said(obj, "allNodes", path, errors)


def _flag_said(obj: Obj, field: str, path: str, errors: Errors) -> list[str]:
    if obj.get(field):
        return [f"`{field}`"]
    if obj.get(field) is not None:
        errors.invalid(f"{path}.{field}", False, _UNSET_OR_TRUE)
    return []


def _validate_nodes_of_device(device: Obj, is_per_device: bool, path: str, errors: Errors) -> None:
    if not is_per_device:
        if any(device.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes")):
            text = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {_PER_DEVICE}"
            errors.invalid(path, None, text)
        return
    said = _nodes_said(device, path, "must not be empty", errors)
    needed = f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {_PER_DEVICE}"
    if not said:
        errors.required(path, needed)
    elif len(said) > 1:
        errors.invalid(path, f"{{{', '.join(said)}}}", needed)


# devices -------------------------------------------------------------------------------------------------------


def _validate_devices(spec: Obj, devices: list[Obj], old: Obj | None, errors: Errors) -> None:
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = _MOST_ADVANCED_DEVICES if is_advanced else _MOST_DEVICES
    if not validate_count(devices, most, "spec.devices", errors):
        return
    before = {device.get("name", ""): device for device in (old or {}).get("devices") or ()}
    is_per_device = bool(spec.get("perDeviceNodeSelection"))
    for index, device in enumerate(devices):
        path = f"spec.devices[{index}]"
        _validate_device(device, before.get(device.get("name", "")), path, errors)
        _validate_nodes_of_device(device, is_per_device, path, errors)
        validate_binding(device, path, errors)
    validate_unique((device.get("name", "") for device in devices), "spec.devices", errors)


def _validate_device(device: Obj, old: Obj | None, path: str, errors: Errors) -> None:
    check(errors, f"{path}.name", device.get("name", ""), names.dns1123_label)
    attributes, capacity, taints = (device.get(field) for field in ("attributes", "capacity", "taints"))
    if (count := len(attributes or ()) + len(capacity or ())) > MOST_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        errors.invalid(path, count, text)
    else:
        for name, attribute in (attributes or {}).items():
            validate_qualified_name(name, f"{path}.attributes", errors)
            _validate_attribute(attribute, at_key(f"{path}.attributes", name), errors)
        if old is None or not is_same(capacity, old.get("capacity")):
            _validate_capacity(capacity or {}, bool(device.get("allowMultipleAllocations")), path, errors)
    if old is None or not is_same(taints, old.get("taints")):
        _validate_taints(taints or [], f"{path}.taints", errors)
    consumed = device.get("consumesCounters") or []
    if validate_count(consumed, _MOST_CONSUMED_SETS, f"{path}.consumesCounters", errors):
        for index, counters in enumerate(consumed):
            _validate_counters(counters, "counterSet", f"{path}.consumesCounters[{index}]", errors)
        validate_unique((found.get("counterSet", "") for found in consumed), f"{path}.consumesCounters", errors)


def _validate_attribute(attribute: Obj, path: str, errors: Errors) -> None:
    said = [field for field in _VALUES if attribute.get(field) is not None]
    if "version" in said and not _VERSION.fullmatch(attribute["version"]):
        text = "must be a string compatible with semver.org spec 2.0.0"
        errors.invalid(f"{path}.version", attribute["version"], text)
    for field in ("string", "version"):
        if field in said and len(attribute[field].encode()) > VALUE_MAX:
            errors.too_long(f"{path}.{field}", VALUE_MAX)
    if len(said) != 1:
        errors.invalid(path, attribute if said else "", "exactly one value must be specified")


def _validate_taints(taints: list[Obj], path: str, errors: Errors) -> None:
    if not validate_count(taints, _MOST_TAINTS, path, errors):
        return
    for index, taint in enumerate(taints):
        here, effect = f"{path}[{index}]", taint.get("effect", "")
        check(errors, f"{here}.key", taint.get("key", ""), names.qualified_name)
        check(errors, f"{here}.value", taint.get("value", ""), names.label_value)
        if not effect:
            errors.required(f"{here}.effect")
        elif effect not in TAINT_EFFECTS:
            errors.not_supported(f"{here}.effect", Word(effect), TAINT_EFFECTS)


def _validate_counters(found: Obj, name_field: str, path: str, errors: Errors) -> None:
    """Counters of a set, or what a device takes of them."""
    name, counters = found.get(name_field, ""), found.get("counters") or {}
    if not name:
        errors.required(f"{path}.{name_field}")
    else:
        check(errors, f"{path}.{name_field}", name, names.dns1123_label)
    if not counters:
        errors.required(f"{path}.counters")
    elif validate_count(counters, _MOST_COUNTERS, f"{path}.counters", errors):
        for counter in counters:
            check(errors, f"{path}.counters", counter, names.dns1123_label)


# capacity ------------------------------------------------------------------------------------------------------


def _validate_capacity(capacity: Obj, is_shared: bool, path: str, errors: Errors) -> None:
    for name, found in capacity.items():
        validate_qualified_name(name, f"{path}.capacity", errors)
        policy, here = found.get("requestPolicy"), f"{at_key(f'{path}.capacity', name)}.requestPolicy"
        if policy is not None and not is_shared:
            errors.forbidden(here, "allowMultipleAllocations must be true")
        elif policy is not None:
            _validate_policy(policy, parse(found["value"]), here, errors)


def _validate_policy(policy: Obj, whole: Quantity, path: str, errors: Errors) -> None:
    values, range_ = policy.get("validValues"), policy.get("validRange")
    if values and range_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        errors.forbidden(path, text)
        return
    for field, rule, said in (
        ("validValues", _validate_values, values or None),
        ("validRange", _validate_range, range_),
    ):
        if said is None:
            continue
        if policy.get("default") is None:
            errors.required(f"{path}.default", f"required when {field} is defined")
        else:
            rule(said, parse(policy["default"]), whole, f"{path}.{field}", errors)


def _validate_values(found: list[str], default: Quantity, whole: Quantity, path: str, errors: Errors) -> None:
    if not validate_count(found, _MOST_VALID_VALUES, path, errors):
        return
    values = [parse(text) for text in found]
    for index, value in enumerate(values):
        if index and values[index - 1].nanos > value.nanos:
            errors.invalid(f"{path}[{index}]", str(value), "values must be sorted in ascending order")
    for index, value in enumerate(values):
        if value.nanos > whole.nanos:
            errors.invalid(f"{path}[{index}]", str(value), f"option is larger than capacity value: {whole}")
    validate_unique((str(_whole_units(value)) for value in values), path, errors)
    if all(value.nanos != default.nanos for value in values):
        errors.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _validate_range(found: Obj, default: Quantity, whole: Quantity, path: str, errors: Errors) -> None:
    if found.get("min") is None:
        errors.required(f"{path}.min", "required when validRange is defined")
        return
    least, most, step = (None if found.get(field) is None else parse(found[field]) for field in ("min", "max", "step"))
    assert least is not None

    def refuse(field: str, value: Quantity, text: str) -> None:
        errors.invalid(f"{path}.{field}", str(value), text)

    if least.nanos > whole.nanos:
        refuse("min", least, f"min is larger than capacity value: {whole}")
    if default.nanos < least.nanos:
        refuse("default", default, f"default is less than min: {least}")
    if most is not None:
        if least.nanos > most.nanos:
            refuse("max", least, f"min is larger than max: {most}")
        if most.nanos > whole.nanos:
            refuse("max", most, f"max is larger than capacity value: {whole}")
        if default.nanos > most.nanos:
            refuse("default", default, f"default is more than max: {most}")
    if step is not None:
        _validate_step(step, least, [default] if most is None else [default, most], whole, refuse)


def _validate_step(step: Quantity, least: Quantity, values: list[Quantity], whole: Quantity, refuse: Any) -> None:
    if step.nanos <= 0:
        refuse("step", step, "must be greater than zero")
        return
    if (first := least + step).nanos > whole.nanos:
        refuse("step", step, f"one step {first} is larger than capacity value: {whole}")
    for value in values:
        if (_whole_units(value) - _whole_units(least)) % _whole_units(step):
            refuse("step", value, f"value is not a multiple of a given step ({step}) from ({least})")


def _whole_units(amount: Quantity) -> int:
    """Rounded up, as Go's `Value()` rounds."""
    return -(-amount.nanos // _NANOS)
