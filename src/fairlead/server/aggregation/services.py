"""Which versions of groups other servers answer for, as APIServices say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.meta import View
from fairlead.server.aggregation.priorities import GroupVersion


class _Reference(View):
    namespace: str = ""
    name: str = ""
    port: int = 443


class _Spec(View):
    group: str = ""
    version: str = ""
    service: _Reference | None = None
    ca_bundle: str = ""
    is_insecure: bool = msgspec.field(default=False, name="insecureSkipTLSVerify")
    group_priority_minimum: int = 0
    version_priority: int = 0


class _Condition(View):
    type: str = ""
    status: str = ""


class _Status(View):
    conditions: tuple[_Condition, ...] | None = ()


class _ApiService(View):
    spec: _Spec
    status: _Status = _Status()


class RemoteService(msgspec.Struct, frozen=True):
    """An APIService of another server."""

    name: str
    group: str
    version: str
    #: The service that leads there.
    namespace: str
    service: str
    port: int
    #: Base64 of PEM; "": the authorities of the system are trusted.
    ca_bundle: str
    is_insecure: bool
    group_priority: int
    version_priority: int
    is_available: bool

    @property
    def path(self) -> str:
        """Under which it answers."""
        return f"/apis/{self.group}/{self.version}"

    @property
    def host(self) -> str:
        """By which name it must be known."""
        return f"{self.service}.{self.namespace}.svc"


class RemoteServices:
    """All of them, as the registry has them. Whoever has made this lets it observe APIServices."""

    def __init__(self) -> None:
        self._by_name: dict[str, RemoteService] = {}
        self._by_version: dict[GroupVersion, RemoteService] = {}
        #: Counts the changes.
        self.generation = 0
        #: Told the name of each that came, changed or went.
        self.on_changed: Callable[[str], Any] | None = None

    def observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        """The observer of the registry."""
        before = self._by_name.pop(name, None)
        if before is not None:
            del self._by_version[before.group, before.version]
        after = _read(name, raw) if raw is not None else None
        if after is not None:
            self._by_name[name] = self._by_version[after.group, after.version] = after
        if before != after:
            self.generation += 1
            if self.on_changed is not None:
                self.on_changed(name)

    def find(self, group: str, version: str) -> RemoteService | None:
        return self._by_version.get((group, version))

    def named(self, name: str) -> RemoteService | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[RemoteService]:
        return iter(self._by_name.values())


def _read(name: str, raw: bytes) -> RemoteService | None:
    """What an APIService says; None: this server answers itself."""
    found = Encoded(raw).view(_ApiService)
    spec, service = found.spec, found.spec.service
    if service is None:
        return None
    conditions = found.status.conditions or ()
    return RemoteService(
        name,
        spec.group,
        spec.version,
        service.namespace,
        service.name,
        service.port,
        spec.ca_bundle,
        spec.is_insecure,
        spec.group_priority_minimum,
        spec.version_priority,
        any((condition.type, condition.status) == ("Available", "True") for condition in conditions),
    )
