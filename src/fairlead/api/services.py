"""Services and where their traffic goes, as controllers see them."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import Object, View

_NOTHING = msgspec.Raw(b"null")


class ServicePort(View):
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str = 0


class ServiceSpec(View):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] = ()
    ip_families: tuple[str, ...] = ()
    publish_not_ready_addresses: bool = False
    traffic_distribution: str | None = None


class Service(Object):
    spec: ServiceSpec = ServiceSpec()

    @property
    def is_headless(self) -> bool:
        return self.spec.cluster_ip == "None"


class Endpoints(Object):
    """The addresses of a service in their old form; undecoded, for they are compared as a whole."""

    subsets: msgspec.Raw = _NOTHING


class EndpointSlice(Object):
    address_type: str = ""
    endpoints: msgspec.Raw = _NOTHING
    ports: msgspec.Raw = _NOTHING
