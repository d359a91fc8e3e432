"""Where a node says that it can be reached: its addresses by type, and the port of its kubelet."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.meta import View


class _Address(View):
    type: str = ""
    address: str = ""


class _Endpoint(View, rename={"port": "Port"}):
    port: int = 0


class _Endpoints(View):
    kubelet_endpoint: _Endpoint = _Endpoint()


class _Status(View):
    addresses: tuple[_Address, ...] | None = ()
    daemon_endpoints: _Endpoints = _Endpoints()


class ReachableNode(View):
    """A view of a Node."""

    status: _Status = _Status()

    @property
    def kubelet_port(self) -> int:
        """0 where it says none."""
        return self.status.daemon_endpoints.kubelet_endpoint.port

    def address(self, types: Iterable[str]) -> str:
        """The first of the first of these types that it has; empty if it has none of them."""
        by_type = {address.type: address.address for address in reversed(self.status.addresses or ())}
        return next((by_type[type_] for type_ in types if by_type.get(type_)), "")
