"""ConfigMap and Secret: keys, sizes, types, and what `immutable` protects.

Sources: `ValidateConfigMap*` and `ValidateSecret*` of pkg/apis/core/validation, pkg/registry/core/secret (1.36).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.golang import json as gojson
from fairlead.golang.values import unmarshal_error
from fairlead.kinds.rules import check, validate_unchanged
from fairlead.kinds.strategy import MetaCheck, Strategy

MAX_BYTES: Final = 1024 * 1024
SERVICE_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"

_PROTECTED: Final = "field is immutable when `immutable` is set"
_REDACTED: Final = "<secret contents redacted>"


def validate_immutability(obj: Obj, old: Obj, fields: Iterable[str], errors: Errors) -> None:
    """Once `immutable` is true, it and the data stay."""
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.forbidden("immutable", _PROTECTED)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            errors.forbidden(field, _PROTECTED)


class ConfigMapStrategy(Strategy):
    meta_checks = (MetaCheck.CHANGE, MetaCheck.WHOLE)

    def validate(self, obj: Obj, errors: Errors) -> None:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        size = 0
        for key, value in data.items():
            check(errors, f"data[{key}]", key, names.config_map_key)
            if key in binary:
                errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            size += len(value.encode())
        for key, value in binary.items():
            check(errors, f"binaryData[{key}]", key, names.config_map_key)
            size += _decoded_size(value)
        if size > MAX_BYTES:
            errors.too_long("[]", MAX_BYTES)  # how Go prints a path without a name

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_immutability(obj, old, ("data", "binaryData"), errors)
        self.validate(obj, errors)


class SecretStrategy(Strategy):
    meta_checks = (MetaCheck.CHANGE, MetaCheck.WHOLE)
    selectable = {"type": lambda secret: str(secret.get("type", ""))}

    def default(self, obj: Obj) -> None:
        obj.setdefault("type", "Opaque")
        if plain := obj.pop("stringData", None):
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()

    def validate(self, obj: Obj, errors: Errors) -> None:
        data = obj.get("data") or {}
        for key in data:
            check(errors, f"data[{key}]", key, names.config_map_key)
        if sum(map(_decoded_size, data.values())) > MAX_BYTES:
            errors.too_long("data", MAX_BYTES)
        _validate_type(obj, data, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["type"], old["type"], "type", errors)
        validate_immutability(obj, old, ("data",), errors)
        self.validate(obj, errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        """A TLS secret without PEM in it is stored, but remarked on (what `tls.X509KeyPair` says)."""
        if obj["type"] == "kubernetes.io/tls":
            for key, what in zip(_TLS_KEYS, ("certificate", "key"), strict=True):
                if b"-----BEGIN" not in _decoded(obj["data"][key]):
                    return [f"tls: failed to find any PEM data in {what} input"]
        return []


_TLS_KEYS: Final = ("tls.crt", "tls.key")

#: The keys that must be there, by type.
_REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": _TLS_KEYS,
}


def _validate_type(obj: Obj, data: Mapping[str, str], errors: Errors) -> None:
    type_ = obj["type"]
    if type_ == "kubernetes.io/service-account-token":
        if not (metadata(obj).get("annotations") or {}).get(SERVICE_ACCOUNT_NAME):
            errors.required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    elif type_ == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors.required("data[username]")
            errors.required("data[password]")
    elif type_ == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.required("data[ssh-privatekey]")
    else:
        _validate_required_keys(type_, data, errors)


def _validate_required_keys(type_: str, data: Mapping[str, str], errors: Errors) -> None:
    for key in _REQUIRED_KEYS.get(type_, ()):
        if key not in data:
            errors.required(f"data[{key}]")
        elif type_.startswith("kubernetes.io/docker"):
            _validate_json(_decoded(data[key]), f"data[{key}]", errors)


def _validate_json(content: bytes, path: str, errors: Errors) -> None:
    try:
        found = gojson.parse(content)
    except gojson.MalformedJson as malformed:
        errors.invalid(path, _REDACTED, str(malformed))
        return
    if not isinstance(found, dict | None):
        errors.invalid(path, _REDACTED, unmarshal_error(found, "map[string]interface {}"))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _decoded_size(text: str) -> int:
    """How many bytes a base64 text stands for."""
    return len(text) // 4 * 3 - text.count("=", -2) if text else 0
