"""Tells other API servers whom to believe: kube-system/extension-apiserver-authentication.

They read there which authority signs client certificates, and who may say in headers in whose name a request is made.
Source: pkg/controlplane/controller/clusterauthenticationtrust (1.36).
"""

from __future__ import annotations

import json
from typing import Final

from fairlead.api.builtin import CONFIG_MAPS
from fairlead.api.errors import AlreadyExists, NotFound
from fairlead.api.objects import Obj
from fairlead.server.aggregation.backends import EXTRA_PREFIX, GROUP_HEADER, UID_HEADER, USER_HEADER
from fairlead.server.auth.front_proxy import FrontProxySettings
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"


async def publish(
    registry: Registry,
    client_ca: bytes,
    front_proxy_ca: bytes,
    front_proxy: str,
    others: FrontProxySettings | None = None,
) -> None:
    """Write it, if it says something else. `front_proxy` is the common name that the certificate has.

    `others` may say in whose name they ask as well; where they are anybody of their authority, no name is told.
    """
    more = others or FrontProxySettings(b"", ())
    names = _list(front_proxy, *more.allowed_names) if others is None or more.allowed_names else "[]"
    data = {
        "client-ca-file": client_ca.decode(),
        "requestheader-client-ca-file": (front_proxy_ca + more.authorities).decode(),
        "requestheader-allowed-names": names,
        "requestheader-username-headers": _list(USER_HEADER, *more.username_headers),
        "requestheader-uid-headers": _list(UID_HEADER, *more.uid_headers),
        "requestheader-group-headers": _list(GROUP_HEADER, *more.group_headers),
        "requestheader-extra-headers-prefix": _list(EXTRA_PREFIX, *more.extra_prefixes),
    }
    found = registry.find(CONFIG_MAPS.qualified, NAME, NAMESPACE)
    if found is None:
        obj: Obj = {"metadata": {"name": NAME}, "data": data}
        try:
            await registry.create(INTERNAL, CONFIG_MAPS, obj, NAMESPACE)
        except (AlreadyExists, NotFound):  # somebody was faster, or there is no such namespace for now
            return
    elif found.obj().get("data") != data:
        await registry.guaranteed_update(CONFIG_MAPS.qualified, NAME, NAMESPACE, lambda obj: obj | {"data": data})


def _list(*texts: str) -> str:
    """Each once; names of headers have no case."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(text.lower(), text)
    return json.dumps([*found.values()])
