"""Configuration files are read strictly, so that a typo is not a default."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, TypeVar, dataclass_transform

import msgspec

from fairlead.api.objects import Obj
from fairlead.golang import yaml as goyaml

T = TypeVar("T")


def document(data: bytes) -> Obj:
    """The mapping in a file of JSON or YAML. Raises ValueError, also where keys come twice."""
    found = next(goyaml.strict_documents(data), None)
    if not isinstance(found, dict):
        raise ConfigurationError("not a mapping")
    return found


class ConfigurationError(ValueError):
    """What is wrong with a configuration, and where in it."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Strict(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is read from a configuration. Subclasses inherit all of these options but `kw_only`."""


_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$(.*)`)?$")
_AT: Final = re.compile(r"(.+) - at `\$(.*)`$")


def read(value: Any, type_: type[T], path: str) -> T:
    """The value as that type. Raises ConfigurationError with the path of what does not belong there."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        text = str(error)
    if unknown := _UNKNOWN.match(text):
        where = f"{path}{unknown[2] or ''}.{unknown[1]}".lstrip(".")
        raise ConfigurationError(f'strict decoding error: unknown field "{where}"')
    if at := _AT.match(text):
        raise ConfigurationError(f"{f'{path}{at[2]}'.lstrip('.')}: {at[1]}")
    raise ConfigurationError(f"{path.lstrip('.')}: {text}" if path else text)


def check_kind(found: Any, api_versions: Collection[str], kind: str) -> None:
    """Refuse a document (its `api_version` and `kind`) of another kind, as Go's schemes do."""
    if found.api_version not in api_versions or found.kind != kind:
        raise ConfigurationError(f'no kind "{found.kind}" is registered for version "{found.api_version}"')


def check(is_right: bool, path: str, value: Any, why: str) -> None:
    """Refuse a value in the words of field validation."""
    if not is_right:
        written = f'"{value}"' if isinstance(value, str) else value
        raise ConfigurationError(f"{path}: Invalid value: {written}: {why}")
