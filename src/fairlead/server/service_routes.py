"""Where a service listens, for a server that calls it: its name is not in any DNS, and its address not on any network.

So a call goes to one of the ready addresses that its EndpointSlices name, or to its external name. Source:
apiserver/pkg/util/proxy/proxy.go (1.36), as with `--enable-aggregator-routing`. An address of a simulated
pod is nobody's, but may be somebody else's on the network of this machine, who is not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from fairlead.api.encoded import Encoded
from fairlead.api.meta import ObjectMeta, View
from fairlead.client.webhooks import Route, ServiceError
from fairlead.runtime import rng

_SERVICE_NAME: Final = "kubernetes.io/service-name"


class Reader(Protocol):
    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None: ...

    def each(self, resource: str, namespace: str = "") -> Iterable[Encoded]: ...


class _ServicePort(View):
    name: str = ""
    port: int = 0


class _ServiceSpec(View):
    type: str = ""
    external_name: str = ""
    ports: tuple[_ServicePort, ...] = ()


class _Service(View):
    spec: _ServiceSpec


class _SlicePort(View):
    name: str = ""
    port: int | None = None


class _Conditions(View):
    ready: bool | None = None


class _Endpoint(View):
    addresses: tuple[str, ...]
    node_name: str = ""
    conditions: _Conditions = _Conditions()


class Slice(View):
    """An EndpointSlice."""

    metadata: ObjectMeta
    address_type: str = ""
    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_SlicePort, ...] | None = None

    @property
    def service(self) -> str:
        return self.metadata.labels.get(_SERVICE_NAME, "")

    def port(self, name: str) -> int | None:
        """The port of that name."""
        return next((port.port for port in self.ports or () if port.name == name), None)

    def serves(self, port_name: str) -> bool:
        """Whether somebody is ready to answer at that port."""
        is_ready = any(endpoint.conditions.ready is not False for endpoint in self.endpoints or ())
        return is_ready and self.port(port_name) is not None


def service_of(slice_: Encoded) -> str:
    """The service whose addresses an EndpointSlice has."""
    return slice_.view(Slice).service


def slices_of(reader: Reader, namespace: str, service: str) -> Iterator[Slice]:
    """The EndpointSlices of a service."""
    for entry in reader.each("endpointslices.discovery.k8s.io", namespace):
        if (slice_ := entry.kept_view(Slice)).service == service:
            yield slice_


def routes(reader: Reader, is_simulated: Callable[[str], bool]) -> Route:
    """How the services of a server are reached; it is told which nodes are simulated."""
    return partial(_route, reader, is_simulated)


def _route(
    reader: Reader, is_simulated: Callable[[str], bool], namespace: str, name: str, port: int
) -> tuple[str, int]:
    found = reader.find("services", name, namespace)
    if found is None:
        raise ServiceError(f'service "{name}" not found')
    spec = found.kept_view(_Service).spec
    if spec.type == "ExternalName":
        return spec.external_name, port
    named = next((served.name for served in spec.ports if served.port == port), None)
    if named is None:
        raise ServiceError(f'no service port {port} found for service "{name}"')
    places = list(_places(reader, namespace, name, named))
    if not places:
        raise ServiceError(f'no endpoints available for service "{name}"')
    address, number, node = rng.source().choice(places)
    if is_simulated(node):
        raise ServiceError(f"dial tcp {address}:{number}: connect: connection refused")
    return address, number


def _places(reader: Reader, namespace: str, service: str, port_name: str) -> Iterator[tuple[str, int, str]]:
    """The ready addresses, each with its port and its node."""
    for slice_ in slices_of(reader, namespace, service):
        port = slice_.port(port_name) if slice_.address_type != "FQDN" else None
        if port is not None:
            for endpoint in slice_.endpoints or ():
                if endpoint.conditions.ready is not False:
                    yield endpoint.addresses[0], port, endpoint.node_name
