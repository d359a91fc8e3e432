"""Service: what a name for a set of pods may say, and what is filled in.

Addresses and node ports are given out by `service_addresses.py`, which runs before these rules. Sources:
`SetDefaults_Service`, pkg/api/service, pkg/registry/core/service (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.ips import cidr_warnings, ip_warnings
from fairlead.kinds.service_kinds import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    LOAD_BALANCER,
    TOPOLOGY_HINTS,
    TOPOLOGY_MODE,
    WITH_CLUSTER_IP,
    WITH_NODE_PORTS,
    is_externally_accessible,
    needs_health_check,
)
from fairlead.kinds.service_rules import (
    validate_load_balancer_status,
    validate_service,
    validate_service_update,
)
from fairlead.kinds.strategy import Strategy

_AFFINITY_SECONDS: Final = 10800


class ServiceStrategy(Strategy):
    allows_create_on_update = True
    returns_deleted = True
    has_status = True
    selectable = {
        "spec.clusterIP": lambda service: str((service.get("spec") or {}).get("clusterIP", "")),
        "spec.type": lambda service: str((service.get("spec") or {}).get("type", "")),
    }

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        _default_affinity(spec)
        spec.setdefault("type", CLUSTER_IP)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort", 0) in (0, ""):
                port["targetPort"] = port["port"]
        if is_externally_accessible(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] in WITH_CLUSTER_IP:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == LOAD_BALANCER:
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in (obj["status"].get("loadBalancer") or {}).get("ingress") or ():
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        _keep_allocated(obj["spec"], old["spec"])
        _drop_what_the_new_type_lacks(obj["spec"], old["spec"])
        if obj["spec"]["type"] != LOAD_BALANCER:
            # Nobody has to know that a balancer takes its time to go.
            obj["status"] = (obj.get("status") or {}) | {"loadBalancer": {}}

    def validate(self, obj: Obj, errors: Errors) -> None:
        validate_service(obj, None, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_service_update(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_load_balancer_status(obj, old, errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        return service_warnings(obj)

    def status_warnings(self, obj: Obj) -> list[str]:
        warnings = []
        for index, ingress in enumerate((obj["status"].get("loadBalancer") or {}).get("ingress") or ()):
            if ip := ingress.get("ip"):
                warnings += ip_warnings(ip, f"status.loadBalancer.ingress[{index}]")
        return warnings


def _default_affinity(spec: Obj) -> None:
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


# updates ---------------------------------------------------------------------------------------------------------


def _keep_allocated(spec: Obj, old: Obj) -> None:
    """Allocated values that the client leaves out are kept (`patchAllocatedValues`, `normalizeClusterIPs`)."""
    if spec["type"] in WITH_CLUSTER_IP and old["type"] in WITH_CLUSTER_IP:
        if not spec.get("clusterIP") and old.get("clusterIP"):
            spec["clusterIP"] = old["clusterIP"]
        if not spec.get("clusterIPs") and spec.get("clusterIP") == old.get("clusterIP") and old.get("clusterIPs"):
            spec["clusterIPs"] = list(old["clusterIPs"])
    if spec["type"] in WITH_NODE_PORTS and old["type"] in WITH_NODE_PORTS:
        _keep_node_ports(spec.get("ports") or [], old.get("ports") or [])
    if needs_health_check(spec) and needs_health_check(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    _follow_cluster_ip(spec, old)


def _keep_node_ports(ports: list[Obj], old: list[Obj]) -> None:
    used = {port.get("nodePort") for port in ports}
    by_name = {port.get("name"): port.get("nodePort") for port in old}
    for port in ports:
        known = by_name.get(port.get("name"))
        if known and not port.get("nodePort") and known not in used:
            port["nodePort"] = known
            used.add(known)


def _follow_cluster_ip(spec: Obj, old: Obj) -> None:
    """The client changed `clusterIP` alone: `clusterIPs` follows."""
    first, all_ = spec.get("clusterIP"), spec.get("clusterIPs") or []
    if first == old.get("clusterIP") or all_ != (old.get("clusterIPs") or []):
        return
    if not first:
        spec.pop("clusterIPs", None)
    else:
        spec["clusterIPs"] = [first, *all_[1:]]


def _drop_what_the_new_type_lacks(spec: Obj, old: Obj) -> None:
    """Who changes only the type does not have to clear what no longer applies (`dropTypeDependentFields`)."""
    if old["type"] in WITH_CLUSTER_IP and spec["type"] not in WITH_CLUSTER_IP:
        if spec.get("clusterIP") == old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            _drop_if_same(spec, old, field)
    if old["type"] in WITH_NODE_PORTS and spec["type"] not in WITH_NODE_PORTS:
        _drop_node_ports(spec, old)
    if needs_health_check(old) and not needs_health_check(spec):
        _drop_if_same(spec, old, "healthCheckNodePort")
    if old["type"] == LOAD_BALANCER and spec["type"] != LOAD_BALANCER:
        _drop_if_same(spec, old, "allocateLoadBalancerNodePorts")
        _drop_if_same(spec, old, "loadBalancerClass")
    if is_externally_accessible(old) and not is_externally_accessible(spec):
        _drop_if_same(spec, old, "externalTrafficPolicy")


def _drop_if_same(spec: Obj, old: Obj, field: str) -> None:
    if spec.get(field) == old.get(field):
        spec.pop(field, None)


def _drop_node_ports(spec: Obj, old: Obj) -> None:
    ports = spec.get("ports") or []
    if _node_ports(ports) <= _node_ports(old.get("ports") or []):
        for port in ports:
            port.pop("nodePort", None)


def _node_ports(ports: list[Obj]) -> set[int]:
    return {port["nodePort"] for port in ports if port.get("nodePort")}


# warnings --------------------------------------------------------------------------------------------------------


def service_warnings(obj: Obj) -> list[str]:
    spec, annotations = obj["spec"], metadata(obj).get("annotations") or {}
    type_, external_ips = spec["type"], spec.get("externalIPs") or []
    is_bare = type_ == CLUSTER_IP and spec.get("clusterIP") == HEADLESS
    warnings = []
    if TOPOLOGY_HINTS in annotations:
        warnings.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if spec.get("clusterIP") not in (None, "", HEADLESS):
        for index, ip in enumerate(spec.get("clusterIPs") or ()):
            warnings += ip_warnings(ip, f"spec.clusterIPs[{index}]")
    if is_bare:
        warnings += _headless_warnings(spec)
    for index, ip in enumerate(external_ips):
        warnings += ip_warnings(ip, f"spec.externalIPs[{index}]")
    if external_ips and not is_bare and type_ != EXTERNAL_NAME:
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        warnings += ip_warnings(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for index, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += cidr_warnings(cidr, f"spec.loadBalancerSourceRanges[{index}]")
    if type_ == EXTERNAL_NAME and external_ips:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if type_ != EXTERNAL_NAME and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def _headless_warnings(spec: Obj) -> list[str]:
    warnings = []
    if spec.get("loadBalancerIP"):
        warnings.append("spec.loadBalancerIP is ignored for headless services")
    if spec.get("externalIPs"):
        warnings.append("spec.externalIPs is ignored for headless services")
    if spec["sessionAffinity"] != "None":
        warnings.append("spec.SessionAffinity is ignored for headless services")
    return warnings
