"""The rules of a Service (`ValidateService*` of pkg/apis/core/validation, 1.36)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.selectors import validate_labels
from fairlead.kinds.ips import parse_ip, validate_cidr, validate_endpoint_ip, validate_ip
from fairlead.kinds.rules import check, validate_protocol
from fairlead.kinds.service_ips import validate_address_fields, validate_address_update
from fairlead.kinds.service_kinds import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    NODE_PORT,
    SOURCE_RANGES,
    TOPOLOGY_HINTS,
    TOPOLOGY_MODE,
    TYPES,
    WITH_CLUSTER_IP,
    is_externally_accessible,
    is_headless,
    needs_health_check,
)

_AFFINITY_MAX: Final = 86400
_KUBELET_PORT: Final = 10250
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_NOTHING: Final[Mapping[str, Any]] = {}


def validate_service(obj: Obj, old: Obj | None, errors: Errors) -> None:
    spec, was = obj["spec"], old["spec"] if old else _NOTHING
    annotations = metadata(obj).get("annotations") or {}
    _validate_topology(annotations, errors)
    _validate_type_fields(spec, errors)
    _validate_ports(spec, errors)
    validate_labels(spec.get("selector"), errors, "spec.selector")
    _validate_affinity(spec, errors)
    validate_address_fields(spec, was, errors)
    existing = frozenset(was.get("externalIPs") or ())
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        _validate_external_ip(ip, f"spec.externalIPs[{index}]", existing, errors)
    if spec["type"] not in TYPES:
        errors.not_supported("spec.type", spec["type"], TYPES)
    _validate_node_ports(spec, errors)
    _validate_unique_ports(spec, errors)
    _validate_source_ranges(obj, old, errors)
    _validate_balancer_fields(spec, errors)
    validate_load_balancer_class(spec, errors)
    _validate_external_traffic(spec, errors)
    _validate_internal_traffic(spec, errors)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS, sort=False)


def validate_service_update(obj: Obj, old: Obj, errors: Errors) -> None:
    spec, was = obj["spec"], old["spec"]
    validate_address_update(spec, was, errors)
    is_balanced = spec["type"] == was["type"] == LOAD_BALANCER
    if is_balanced and spec.get("loadBalancerClass") != was.get("loadBalancerClass"):
        errors.invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set")
    validate_load_balancer_class(spec, errors)
    stays_checked = needs_health_check(spec) and needs_health_check(was)
    if stays_checked and spec.get("healthCheckNodePort") != was.get("healthCheckNodePort"):
        errors.forbidden("spec.healthCheckNodePort", "field is immutable")
    validate_service(obj, old, errors)


def validate_load_balancer_class(spec: Obj, errors: Errors) -> None:
    wanted = spec.get("loadBalancerClass")
    if wanted is None:
        return
    if spec["type"] == LOAD_BALANCER:
        check(errors, "spec.loadBalancerClass", wanted, names.qualified_name)
    else:
        errors.forbidden("spec.loadBalancerClass", _ONLY_BALANCED)


def validate_load_balancer_status(obj: Obj, old: Obj, errors: Errors) -> None:
    ingresses = (obj["status"].get("loadBalancer") or {}).get("ingress") or []
    if ingresses and obj["spec"]["type"] != LOAD_BALANCER:
        errors.forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        return
    known = ((old.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    existing = {ingress.get("ip") for ingress in known}
    for index, ingress in enumerate(ingresses):
        _validate_ingress(ingress, f"status.loadBalancer.ingress[{index}]", existing, errors)


def _validate_ingress(ingress: Obj, path: str, existing: set[str | None], errors: Errors) -> None:
    ip, mode, host = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
    if ip and ip not in existing:
        validate_ip(ip, f"{path}.ip", errors)
    if mode is None:
        if ip:
            errors.required(f"{path}.ipMode", "must be specified when `ip` is set")
    elif not ip:
        errors.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
    elif mode not in ("Proxy", "VIP"):
        errors.not_supported(f"{path}.ipMode", mode, ("Proxy", "VIP"))
    if host:
        check(errors, f"{path}.hostname", host, names.dns1123_subdomain)
        if parse_ip(host) is not None:
            errors.invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address")


# parts -----------------------------------------------------------------------------------------------------------


def _validate_topology(annotations: Mapping[str, str], errors: Errors) -> None:
    mode, hints = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_HINTS)
    if mode is not None and hints is not None and mode != hints:
        errors.invalid(
            f"metadata.annotations[{TOPOLOGY_MODE}]",
            mode,
            f"must match annotations[{TOPOLOGY_HINTS}] when both are specified",
        )


def _validate_type_fields(spec: Obj, errors: Errors) -> None:
    type_ = spec["type"]
    if not spec.get("ports") and not is_headless(spec) and type_ != EXTERNAL_NAME:
        errors.required("spec.ports")
    if type_ == LOAD_BALANCER:
        for index, port in enumerate(spec.get("ports") or ()):
            if port["port"] == _KUBELET_PORT:
                text = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
                errors.invalid(f"spec.ports[{index}]", _KUBELET_PORT, text)
    if type_ in (LOAD_BALANCER, NODE_PORT) and is_headless(spec):
        errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {type_} services")
    if type_ == EXTERNAL_NAME:
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) not in (None, []):
                errors.forbidden(f"spec.{field}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            check(errors, "spec.externalName", name, names.dns1123_subdomain)
        else:
            errors.required("spec.externalName")


def _validate_ports(spec: Obj, errors: Errors) -> None:
    ports = spec.get("ports") or []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            check(errors, f"{path}.name", name, names.dns1123_label)
            if name in seen:
                errors.duplicate(f"{path}.name", name)
            seen.add(name)
        elif len(ports) > 1:
            errors.required(f"{path}.name")
        check(errors, f"{path}.port", port["port"], names.port_number)
        validate_protocol(port.get("protocol", ""), f"{path}.protocol", errors)
        target = port["targetPort"]
        if isinstance(target, str):
            check(errors, f"{path}.targetPort", target, names.port_name)
        else:
            check(errors, f"{path}.targetPort", target, names.port_number)
        if (protocol := port.get("appProtocol")) is not None:
            check(errors, f"{path}.appProtocol", protocol, names.qualified_name)


def _validate_affinity(spec: Obj, errors: Errors) -> None:
    affinity, config = spec["sessionAffinity"], spec.get("sessionAffinityConfig")
    if affinity not in ("ClientIP", "None"):
        errors.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    elif affinity == "None" and config is not None:
        errors.forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    elif affinity == "ClientIP":
        timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < timeout <= _AFFINITY_MAX:
            errors.invalid(
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                timeout,
                f"must be greater than 0 and less than {_AFFINITY_MAX}",
            )


def _validate_external_ip(ip: str, path: str, existing: Set[str], errors: Errors) -> None:
    before = errors.added
    validate_ip(ip, path, errors, existing)
    if errors.added == before:
        validate_endpoint_ip(ip, path, errors)


def _validate_node_ports(spec: Obj, errors: Errors) -> None:
    ports = spec.get("ports") or []
    if spec["type"] == CLUSTER_IP:
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                errors.forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if number := port.get("nodePort"):
            if (port["protocol"], number) in seen:
                errors.duplicate(f"spec.ports[{index}].nodePort", number)
            seen.add((port["protocol"], number))


def _validate_unique_ports(spec: Obj, errors: Errors) -> None:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        pair = (port.get("protocol", ""), port["port"])
        if pair in seen:
            # Upstream prints an internal ServicePort with nothing else in it.
            errors.duplicate(
                f"spec.ports[{index}]",
                {"Name": "", "Protocol": pair[0], "AppProtocol": None, "Port": pair[1], "TargetPort": 0, "NodePort": 0},
            )
        seen.add(pair)


def _validate_source_ranges(obj: Obj, old: Obj | None, errors: Errors) -> None:
    spec, ranges = obj["spec"], obj["spec"].get("loadBalancerSourceRanges")
    is_balanced = spec["type"] == LOAD_BALANCER
    if ranges:
        if not is_balanced:
            errors.forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED)
        known = (old["spec"].get("loadBalancerSourceRanges") or ()) if old else ()
        existing = {value.strip() for value in known}
        for index, value in enumerate(ranges):
            validate_cidr(value.strip(), f"spec.LoadBalancerSourceRanges[{index}]", errors, existing)
        return
    text = (metadata(obj).get("annotations") or {}).get(SOURCE_RANGES)
    if text is None:
        return
    path = f"metadata.annotations[{SOURCE_RANGES}]"
    if not is_balanced:
        errors.forbidden(path, _ONLY_BALANCED)
    if text.strip() and (old is None or (metadata(old).get("annotations") or {}).get(SOURCE_RANGES) != text):
        for value in text.strip().split(","):
            validate_cidr(value.strip(), path, errors)


def _validate_balancer_fields(spec: Obj, errors: Errors) -> None:
    is_balanced, allocates = spec["type"] == LOAD_BALANCER, spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and not is_balanced:
        errors.forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED)
    if allocates is None and is_balanced:
        errors.required("allocateLoadBalancerNodePorts")


def _validate_external_traffic(spec: Obj, errors: Errors) -> None:
    policy, health_port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    if not is_externally_accessible(spec):
        if policy:
            errors.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    elif not policy:
        errors.required("spec.externalTrafficPolicy")
    elif policy not in ("Cluster", "Local"):
        errors.not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    if needs_health_check(spec):
        if not health_port:
            errors.required("spec.healthCheckNodePort")
        else:
            check(errors, "spec.healthCheckNodePort", health_port, names.port_number)
    elif health_port:
        errors.invalid(
            "spec.healthCheckNodePort",
            health_port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )


def _validate_internal_traffic(spec: Obj, errors: Errors) -> None:
    policy = spec.get("internalTrafficPolicy")
    if policy is None:
        if spec["type"] in WITH_CLUSTER_IP:
            errors.required("spec.internalTrafficPolicy")
    elif policy not in ("Cluster", "Local"):
        errors.not_supported("spec.internalTrafficPolicy", policy, ("Cluster", "Local"))
