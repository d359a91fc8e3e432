"""Where a request comes from, as its head and its connection say.

Everything here but the client's own address is what somebody has written: it is bounded, and read when it is told.
Sources: k8s.io/apiserver, pkg/audit/request.go; k8s.io/apimachinery, pkg/util/net/http.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec

#: How much of the name of a program is told.
_LONGEST_AGENT: Final = 1024
_CUT: Final = "...TRUNCATED"
#: How much of a list of proxies is looked at; the client's own address always is.
_LONGEST_CHAIN: Final = 4096


class Origin(msgspec.Struct, frozen=True):
    """As it was sent. Nothing of it is text yet."""

    audit_id: bytes
    path: bytes
    query: bytes
    agent: bytes
    forwarded: bytes
    real_ip: bytes
    client: str

    @classmethod
    def of(cls, audit_id: bytes, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Origin:
        client = scope["client"]
        return cls(
            audit_id,
            scope["raw_path"],
            scope["query_string"],
            headers.get(b"user-agent", b"")[: _LONGEST_AGENT + 1],
            headers.get(b"x-forwarded-for", b"")[:_LONGEST_CHAIN],
            headers.get(b"x-real-ip", b"")[:_LONGEST_CHAIN],
            client[0] if client else "",
        )

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return len(self.path) + len(self.query) + len(self.agent) + len(self.forwarded)

    @property
    def id(self) -> str:
        return _text(self.audit_id)

    @property
    def uri(self) -> str:
        return _text(b"%b?%b" % (self.path, self.query) if self.query else self.path)

    @property
    def user_agent(self) -> str:
        if len(self.agent) > _LONGEST_AGENT:
            return _text(self.agent[:_LONGEST_AGENT]) + _CUT
        return _text(self.agent)

    @property
    def source_ips(self) -> tuple[str, ...]:
        """From where, as proxies on the way say, and as the connection says last."""
        own = self.client
        if not self.forwarded and not self.real_ip:
            return (own,) if own else ()
        addresses = [address for part in self.forwarded.split(b",") if (address := _address(part))]
        if (address := _address(self.real_ip)) and address not in addresses:
            addresses.append(address)
        if own and addresses[-1:] != [own]:
            addresses.append(own)
        return tuple(addresses)


def _address(text: bytes) -> str:
    """An IP address as Go writes it; "" if it is none."""
    try:
        return str(ip_address(text.decode("ascii", "replace").strip()))
    except ValueError:
        return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
