"""How this server shows webhooks who it is: the users of a kubeconfig, each named by the server that it is for.

A name is a host with or without its port (443 if without), `*.` and the end of a host, or `*` for all others.
Source: apiserver, pkg/util/webhook/authentication.go (1.36).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.client import kubeconfig
from fairlead.client.kubeconfig import Access
from fairlead.client.tls import show, trusting_anybody

_HTTPS: Final = 443
_ANY: Final = "*"
#: What would have to be run to know who this server is.
_REFUSED: Final = ("exec", "auth-provider")


class Credential(msgspec.Struct, frozen=True):
    """What is shown to one server."""

    name: str
    access: Access

    async def headers(self) -> dict[str, str]:
        """The `Authorization` that goes along, if there is one. OSError: the file of its token cannot be read."""
        return await kubeconfig.authorization(self.access)


class WebhookCredentials:
    """The users of a kubeconfig. ValueError or OSError: the file is none, or names others that are not there."""

    def __init__(self, file: Path) -> None:
        config = kubeconfig.read(file)
        accesses = kubeconfig.users(config, file)
        self._users = {name: _credential(name, accesses[name], user) for name, user in _entries(config)}
        self._default = self._users.get(_current_user(config))

    def find(self, host: str, port: int) -> Credential | None:
        """What is shown to the server of that name and port; None: nothing."""
        names = _names(f"{host}:{port}", is_default=port == _HTTPS)
        return next((self._users[name] for name in names if name in self._users), self._default)


def _names(target: str, *, is_default: bool) -> Iterator[str]:
    """By which names a user can be for this server, the nearest first."""
    for whole in (target, target.rpartition(":")[0]) if is_default else (target,):
        yield whole
        rest = whole
        while "." in rest:
            rest = rest.partition(".")[2]
            yield f"*.{rest}"
    yield _ANY


def _entries(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in config.get("users") or ():
        yield entry["name"], entry.get("user") or {}


def _credential(name: str, access: Access, user: dict[str, Any]) -> Credential:
    if refused := next((key for key in _REFUSED if user.get(key)), None):
        raise ValueError(f"the user {name!r} has {refused}, which is not supported for webhooks")
    if access.client_certificate and access.client_key:
        try:
            show(trusting_anybody(), access.client_certificate, access.client_key)
        except ssl.SSLError as error:
            raise ValueError(f"the certificate and key of the user {name!r} cannot be used: {error}") from None
    return Credential(name, access)


def _current_user(config: dict[str, Any]) -> str:
    """Whose context is chosen; "": none is."""
    current = config.get("current-context") or ""
    for entry in config.get("contexts") or ():
        if current and entry.get("name") == current:
            return str((entry.get("context") or {}).get("user") or "")
    return ""
