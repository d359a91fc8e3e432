"""Services as variables of a container: that of the API server always, the others of its namespace unless it says no.

Source: pkg/kubelet/envvars, getServiceEnvVarMap of pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from fairlead.api.services import Service

#: Everybody is told where the API server is.
_API_SERVER = ("default", "kubernetes")
_HTTPS_PORT: Final = 443


def service_variables(services: Iterable[Service], namespace: str, *, has_links: bool) -> dict[str, str]:
    """Of those that have an address."""
    found: dict[str, str] = {}
    for service in services:
        meta, address = service.metadata, service.spec.cluster_ip
        is_own = has_links and meta.namespace == namespace
        if address not in ("", "None") and service.spec.ports and (is_own or _is_api_server(service)):
            found |= _variables(service)
    return found


def with_api_server_at(services: Iterable[Service], url: str) -> Iterator[Service]:
    """The same, but the API server is where that says, for pods that no service leads to it."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _HTTPS_PORT
    for service in services:
        if _is_api_server(service):
            ports = tuple(replace(each, port=port) for each in service.spec.ports)
            service = replace(service, spec=replace(service.spec, cluster_ip=host, ports=ports))
        yield service


def _is_api_server(service: Service) -> bool:
    return (service.metadata.namespace, service.metadata.name) == _API_SERVER


def _variables(service: Service) -> dict[str, str]:
    name, address, ports = _variable(service.metadata.name), service.spec.cluster_ip, service.spec.ports
    host = f"[{address}]" if ":" in address else address
    found = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0].port)}
    found |= {f"{name}_SERVICE_PORT_{_variable(port.name)}": str(port.port) for port in ports if port.name}
    for index, port in enumerate(ports):
        url = f"{port.protocol.lower()}://{host}:{port.port}"
        if index == 0:
            found[f"{name}_PORT"] = url
        prefix = f"{name}_PORT_{port.port}_{port.protocol}"
        found |= {prefix: url, f"{prefix}_PROTO": port.protocol.lower()}
        found |= {f"{prefix}_PORT": str(port.port), f"{prefix}_ADDR": address}
    return found


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
