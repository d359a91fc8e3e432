"""A KubeletConfiguration document, decoded as Go decodes it: by exact names and types.

What it says that v1beta1 does not know is told of, and changes nothing: a kubelet logs it and goes on.
Source: pkg/kubelet/kubeletconfig/util/codec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import JSON_TYPES
from fairlead.node.configuration.settings import SETTINGS, Setting

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

#: The Go structures that settings are nested in, by path.
_STRUCTURES: Final[Mapping[str, str]] = {
    "": KIND,
    "authentication": "KubeletAuthentication",
    "authentication.anonymous": "KubeletAnonymousAuthentication",
    "authentication.webhook": "KubeletWebhookAuthentication",
    "authentication.x509": "KubeletX509Authentication",
    "authorization": "KubeletAuthorization",
    "authorization.webhook": "KubeletWebhookAuthorization",
    "crashLoopBackOff": "CrashLoopBackOffConfig",
    "memorySwap": "MemorySwapConfiguration",
    "userNamespaces": "UserNamespaces",
}
_BY_PATH: Final[Mapping[str, Setting]] = {setting.name: setting for setting in SETTINGS if setting.name}


def decode(document: Obj) -> tuple[dict[str, Any], list[str]]:
    """What is set, by attribute, and warnings; ValueError in Go's words."""
    version, kind = document.get("apiVersion", API_VERSION), document.get("kind", KIND)
    if (version, kind) != (API_VERSION, KIND):
        raise ValueError(f"no kind {go_quote(str(kind))} is registered for version {go_quote(str(version))}")
    values: dict[str, Any] = {}
    unknown: list[str] = []
    named = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    for path, value in _leaves(named, "", unknown):
        setting = _BY_PATH[path]
        structure = _STRUCTURES[path.rpartition(".")[0]]
        decoded = setting.type.decode(value, f"{structure}.{path}")
        if not setting.is_unset(decoded):
            values[setting.attribute] = decoded
    fields = ", ".join(f"unknown field {go_quote(path)}" for path in unknown)
    return values, [f"strict decoding error: {fields}"] if unknown else []


def _leaves(level: Obj, parent: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    for name, value in level.items():
        path = f"{parent}.{name}" if parent else name
        if path not in _BY_PATH and path not in _STRUCTURES:
            unknown.append(path)
        elif value is None:
            continue
        elif path in _BY_PATH:
            yield path, value
        elif isinstance(value, dict):
            yield from _leaves(value, path, unknown)
        else:
            where = f"{_STRUCTURES[parent]}.{path} of type v1beta1.{_STRUCTURES[path]}"
            raise ValueError(f"json: cannot unmarshal {JSON_TYPES[type(value)]} into Go struct field {where}")
