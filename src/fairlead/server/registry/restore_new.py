"""What of a dump no server has had yet: manifests as people write them, without a uid and a status.

Nobody has defaulted or admitted them: they lack addresses, priorities, accounts, tolerations, whatever admission
fills in, and may ask for more than a quota has. So they are created as `kubectl create` would, once all that the dump
shows is there, those first that others depend on. Webhooks are not asked: they may run in the cluster that only begins.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from ipaddress import IPv4Address
from typing import Any, Final

import msgspec

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.resources import Resource
from fairlead.kinds.ips import parse_ip
from fairlead.kinds.service_kinds import EXTERNAL_NAME
from fairlead.runtime.rng import NAME_ALPHABET
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

_SUFFIX_LENGTH: Final = 5
#: What others depend on comes first, a quota after what it counts: it counts nothing until a controller has looked.
_FIRST: Final = ("PriorityClass", "RuntimeClass", "StorageClass", "IngressClass", "ServiceAccount", "LimitRange")
_LAST: Final = ("Pod", "ResourceQuota")


class NewObject(msgspec.Struct):
    """One of them, and where it goes."""

    resource: Resource
    namespace: str
    obj: Obj

    @property
    def turn(self) -> int:
        kind = self.resource.kind
        if kind in _FIRST:
            return _FIRST.index(kind) - len(_FIRST)
        if kind == "Service" and not self.obj["spec"].get("clusterIP"):
            return 1  # an address that is chosen must not be one that another Service names
        return 2 + _LAST.index(kind) if kind in _LAST else 0

    async def create(self, registry: Registry) -> None:
        """Raises ApiError if it is refused."""
        obj = copied(self.obj)
        address = _take_address(obj) if self.resource.kind == "Service" else None
        await registry.create(INTERNAL, self.resource, obj, self.namespace)
        if address:
            await registry.guaranteed_update(
                self.resource.qualified, name_of(obj), self.namespace, lambda stored: _with_address(stored, address)
            )


def _take_address(service: Obj) -> str | None:
    """The address that it is written down with: of the network of the cluster that it is for, which is not ours."""
    spec = service["spec"]
    address: str = spec.get("clusterIP") or ""
    if not isinstance(parse_ip(address), IPv4Address) or spec.get("type") == EXTERNAL_NAME:
        return None  # there is none, or one that the rules of a Service are asked about
    for field in ("clusterIP", "clusterIPs"):
        spec.pop(field, None)
    return address


def _with_address(service: Obj, address: str) -> Obj:
    service["spec"] |= {"clusterIP": address, "clusterIPs": [address]}
    return service


def is_new(obj: Obj) -> bool:
    """Whether no server has had it: `kubectl create --dry-run -o yaml` writes a status, of which all is empty."""
    meta = obj.get("metadata")
    return not (isinstance(meta, dict) and meta.get("uid")) and _says_nothing(obj.get("status"))


def _says_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_says_nothing, value.values()))
    return not value


class GeneratedNames:
    """Names for objects that have only the beginning of one: the same at each start, so that none is made again."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def name(self, obj: Obj) -> None:
        meta = metadata(obj)
        prefix = meta.get("generateName")
        if meta.get("name") or not isinstance(prefix, str) or not prefix:
            return
        which = (str(obj.get("kind")), str(meta.get("namespace") or "default"), prefix)
        self._counts[which] += 1
        digest = hashlib.sha256("/".join((*which, str(self._counts[which]))).encode()).digest()
        letters = (NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in digest[:_SUFFIX_LENGTH])
        meta["name"] = prefix + "".join(letters)
