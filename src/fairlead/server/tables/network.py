"""Services and what carries their traffic: endpoints, ingresses, policies, address ranges."""

from __future__ import annotations

from typing import Final

from fairlead.api import selectors
from fairlead.api.objects import Obj
from fairlead.server.tables.base import AGE, NAME, Column, PrinterOf, Subject, field, printer
from fairlead.server.tables.text import NONE, UNKNOWN, UNSET, labels_text, shortened

_SHOWN: Final = 3


def _ingress_points(status: Obj) -> list[str]:
    """Where a load balancer lets traffic in."""
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    return sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""})


def _external_ip(service: Subject) -> str:
    type_, addresses = service.spec.get("type"), service.spec.get("externalIPs") or []
    if type_ in ("ClusterIP", "NodePort"):
        return ",".join(addresses) or NONE
    if type_ == "LoadBalancer":
        return ",".join([*_ingress_points(service.status), *addresses]) or "<pending>"
    if type_ == "ExternalName":
        return str(service.spec.get("externalName", ""))
    return UNKNOWN


def _cluster_ip(service: Subject) -> str:
    addresses = service.spec.get("clusterIPs")
    return str(addresses[0]) if addresses else NONE


def _port(port: Obj) -> str:
    node_port = port.get("nodePort")
    number = f"{port['port']}:{node_port}" if node_port else port["port"]
    return f"{number}/{port.get('protocol', '')}"


SERVICES: Final = printer(
    NAME,
    Column("Type", field("spec", "type"), "How it is exposed."),
    Column("Cluster-IP", _cluster_ip, "Its address inside the cluster."),
    Column("External-IP", _external_ip, "Addresses outside the cluster that lead to it."),
    Column("Port(s)", lambda it: ",".join(map(_port, it.spec.get("ports") or ())) or NONE, "Where it listens."),
    AGE,
    Column("Selector", lambda it: labels_text(it.spec.get("selector")), "Labels of its pods.", priority=1),
)


def _address_of(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _endpoints(endpoints: Subject) -> str:
    subsets = endpoints.obj.get("subsets")
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [address["ip"] for address in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if ports:
            found.extend(_address_of(ip, port["port"]) for port in ports for ip in addresses)
        else:
            found.extend(addresses)
    return shortened(found, _SHOWN, len(found))


ENDPOINTS: Final = printer(NAME, Column("Endpoints", _endpoints, "Addresses and ports that are ready."), AGE)


def _slice_ports(it: Subject) -> str:
    ports = it.obj.get("ports") or ()
    return shortened([_slice_port(port) for port in ports], _SHOWN, len(ports)) or UNSET


def _slice_port(port: Obj) -> str:
    number = port.get("port")
    return str(port.get("name", "*") if number is None else number)


def _slice_addresses(it: Subject) -> str:
    found = [address for endpoint in it.obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return shortened(found, _SHOWN, len(found)) or UNSET


ENDPOINT_SLICES: Final = printer(
    NAME,
    Column("AddressType", field("addressType"), "The kind of its addresses."),
    Column("Ports", _slice_ports, "Ports of each endpoint."),
    Column("Endpoints", _slice_addresses, "Addresses of the endpoints."),
    AGE,
)


def _hosts(ingress: Subject) -> str:
    """Upstream counts every rule, with a host or without, and looks no further once it has three hosts."""
    rules = ingress.spec.get("rules") or ()
    first = [(index, rule["host"]) for index, rule in enumerate(rules) if rule.get("host")][:_SHOWN]
    if not first:
        return "*"
    text = ",".join(host for _, host in first)
    has_more = len(first) == _SHOWN and first[-1][0] + 1 < len(rules)
    return f"{text} + {len(rules) - _SHOWN} more..." if has_more else text


INGRESSES: Final = printer(
    NAME,
    Column("Class", field("spec", "ingressClassName", default=NONE), "The class that serves it."),
    Column("Hosts", _hosts, "Hosts whose requests it takes."),
    Column("Address", lambda it: ",".join(_ingress_points(it.status)), "Where traffic comes in."),
    Column("Ports", lambda it: "80, 443" if it.spec.get("tls") else "80", "Ports that it opens."),
    AGE,
)


def _parameters(ingress_class: Subject) -> str:
    found = ingress_class.spec.get("parameters")
    if found is None:
        return NONE
    group = found.get("apiGroup")
    kind = found.get("kind", "")
    return f"{kind if group is None else f'{kind}.{group}'}/{found.get('name', '')}"


INGRESS_CLASSES: Final = printer(
    Column(
        "Name",
        lambda it: it.marked_default("ingressclass.kubernetes.io/is-default-class"),
        NAME.description,
        format="name",
    ),
    Column("Controller", field("spec", "controller"), "Who serves the class."),
    Column("Parameters", _parameters, "An object with further settings."),
    AGE,
)

NETWORK_POLICIES: Final = printer(
    NAME,
    Column("Pod-Selector", lambda it: selectors.shown(it.spec.get("podSelector") or {}), "Pods under the policy."),
    AGE,
)

SERVICE_CIDRS: Final = printer(
    NAME, Column("CIDRs", lambda it: ",".join(it.spec.get("cidrs") or ()), "Its address ranges."), AGE
)


def _parent(address: Subject) -> str:
    found = address.spec.get("parentRef")
    if found is None:
        return NONE
    resource, group, namespace = found.get("resource", ""), found.get("group"), found.get("namespace")
    kind = (f"{resource}.{group}" if group else resource).lower()
    where = f"{kind}/{namespace}" if namespace else kind
    return f"{where}/{found.get('name', '')}"


# Upstream prints an age of which its columns know nothing.
IP_ADDRESSES: Final = PrinterOf(
    Subject, (NAME, Column("ParentRef", _parent, "What the address was given to.")), unheaded=(AGE,)
)
