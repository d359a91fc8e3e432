"""Endpoints and EndpointSlices: where the traffic of a Service can go.

Sources: `ValidateEndpoints*` of pkg/apis/core/validation, pkg/apis/discovery/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.ips import IPV6, family_of, ip_warnings, parse_ip, validate_endpoint_ip, validate_ip
from fairlead.kinds.rules import check, validate_protocol, validate_unchanged
from fairlead.kinds.strategy import MetaCheck, Strategy

ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_SLICE_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_SLICE_CONTROLLERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")

_MANY_ENDPOINTS: Final = 1000
_MANY_ADDRESSES: Final = 100
_MANY_PORTS: Final = 20_000
_MANY_HINTS: Final = 8


class EndpointsStrategy(Strategy):
    allows_create_on_update = True
    meta_checks = (MetaCheck.CHANGE, MetaCheck.WHOLE)

    def default(self, obj: Obj) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: Obj, errors: Errors) -> None:
        for index, subset in enumerate(obj.get("subsets") or ()):
            _validate_subset(subset, f"subsets[{index}]", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Unchanged subsets are not validated again."""
        if obj.get("subsets") != old.get("subsets"):
            self.validate(obj, errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        warnings = ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
        if (metadata(obj).get("labels") or {}).get(_MANAGED_BY) == "endpoint-controller":
            return warnings  # the controller writes canonical addresses
        for index, subset in enumerate(obj.get("subsets") or ()):
            for field in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(field) or ()):
                    warnings += ip_warnings(address["ip"], f"subsets[{index}].{field}[{number}].ip")
        return warnings


def _validate_subset(subset: Obj, path: str, errors: Errors) -> None:
    lists = {field: subset.get(field) or [] for field in ("addresses", "notReadyAddresses")}
    if not any(lists.values()):
        errors.required(path, "must specify `addresses` or `notReadyAddresses`")
    for field, addresses in lists.items():
        for index, address in enumerate(addresses):
            _validate_address(address, f"{path}.{field}[{index}]", errors)
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        _validate_port(port, f"{path}.ports[{index}]", errors, needs_name=len(ports) > 1)


def _validate_address(address: Obj, path: str, errors: Errors) -> None:
    validate_ip(address["ip"], f"{path}.ip", errors)
    if hostname := address.get("hostname"):
        check(errors, f"{path}.hostname", hostname, names.dns1123_label)
    if (node := address.get("nodeName")) is not None:
        check(errors, f"{path}.nodeName", node, names.dns1123_subdomain)
    validate_endpoint_ip(address["ip"], f"{path}.ip", errors)


def _validate_port(port: Obj, path: str, errors: Errors, *, needs_name: bool) -> None:
    if name := port.get("name"):
        check(errors, f"{path}.name", name, names.dns1123_label)
    elif needs_name:
        errors.required(f"{path}.name")
    check(errors, f"{path}.port", port["port"], names.port_number)
    validate_protocol(port.get("protocol", ""), f"{path}.protocol", errors)
    if (protocol := port.get("appProtocol")) is not None:
        check(errors, f"{path}.appProtocol", protocol, names.qualified_name)


class EndpointSliceStrategy(Strategy):
    has_generation = True

    def default(self, obj: Obj) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_create(self, obj: Obj) -> None:
        """The topology of old can be read here, but not written."""
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        """A change of labels counts as a new generation."""
        if (metadata(obj).get("labels") or {}) != (metadata(old).get("labels") or {}):
            metadata(obj)["generation"] = metadata(old).get("generation", 0) + 1
        self.prepare_create(obj)

    def validate(self, obj: Obj, errors: Errors) -> None:
        type_ = obj["addressType"]
        if not type_:
            errors.required("addressType")
        elif type_ not in ADDRESS_TYPES:
            errors.not_supported("addressType", type_, ADDRESS_TYPES)
        endpoints = obj.get("endpoints") or []
        if len(endpoints) > _MANY_ENDPOINTS:
            errors.too_many("endpoints", len(endpoints), _MANY_ENDPOINTS)
        else:
            for index, endpoint in enumerate(endpoints):
                _validate_endpoint(endpoint, type_, f"endpoints[{index}]", errors)
        _validate_slice_ports(obj.get("ports") or [], errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        validate_unchanged(obj["addressType"], old["addressType"], "addressType", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        warnings = []
        if obj["addressType"] == "FQDN":
            warnings.append("spec.addressType: FQDN endpoints are deprecated")
        if (metadata(obj).get("labels") or {}).get(_SLICE_MANAGED_BY) in _SLICE_CONTROLLERS:
            return warnings
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            for number, address in enumerate(endpoint.get("addresses") or ()):
                warnings += ip_warnings(address, f"endpoints[{index}].addresses[{number}]")
        return warnings


def _validate_endpoint(endpoint: Obj, type_: str, path: str, errors: Errors) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MANY_ADDRESSES:
        errors.too_many(f"{path}.addresses", len(addresses), _MANY_ADDRESSES)
    for index, address in enumerate(addresses):
        _validate_slice_address(address, type_, f"{path}.addresses[{index}]", errors)
    if (node := endpoint.get("nodeName")) is not None:
        check(errors, f"{path}.nodeName", node, names.dns1123_subdomain)
    if (hostname := endpoint.get("hostname")) is not None:
        check(errors, f"{path}.hostname", hostname, names.dns1123_label)
    _validate_hints(endpoint.get("hints") or {}, f"{path}.hints", errors)


def _validate_slice_address(address: str, type_: str, path: str, errors: Errors) -> None:
    if type_ == "FQDN":
        _validate_domain(address, path, errors)
    elif type_ in ADDRESS_TYPES:
        validate_ip(address, path, errors)
        if parse_ip(address) is not None:
            wanted = "an IPv6" if type_ == IPV6 else "an IPv4"
            if family_of(address) != type_:
                errors.invalid(path, address, f"must be {wanted} address")
            validate_endpoint_ip(address, path, errors)


def _validate_domain(name: str, path: str, errors: Errors) -> None:
    """`IsFullyQualifiedDomainName`: a dot at the end is put up with, and not shown."""
    if not name:
        errors.required(path)
        return
    name = name.removesuffix(".")
    labels = name.split(".")
    if wrong := names.dns1123_subdomain(name):
        errors.invalid(path, name, ",".join(wrong))
    elif len(labels) < 2:
        errors.invalid(path, name, "should be a domain with at least two segments separated by dots")
    elif long := next((label for label in labels if names.dns1123_label(label)), None):
        errors.invalid(path, long, ",".join(names.dns1123_label(long)))


def _validate_hints(hints: Obj, path: str, errors: Errors) -> None:
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns1123_subdomain)):
        wanted, seen = hints.get(field) or [], set()
        if len(wanted) > _MANY_HINTS:
            errors.too_many(f"{path}.{field}", len(wanted), _MANY_HINTS)
            return
        for index, hint in enumerate(wanted):
            where, name = f"{path}.{field}[{index}].name", hint.get("name", "")
            if name in seen:
                errors.duplicate(where, name)
            seen.add(name)
            check(errors, where, name, rule)


def _validate_slice_ports(ports: list[Obj], errors: Errors) -> None:
    if len(ports) > _MANY_PORTS:
        errors.too_many("ports", len(ports), _MANY_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port["name"]
        if name:
            check(errors, f"{path}.name", name, names.dns1123_label)
        if name in seen:
            errors.duplicate(f"{path}.name", name)
        seen.add(name)
        validate_protocol(port["protocol"], f"{path}.protocol", errors)
        if (protocol := port.get("appProtocol")) is not None:
            check(errors, f"{path}.appProtocol", protocol, names.qualified_name)
