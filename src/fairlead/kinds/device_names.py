"""Names and other small things that claims and slices of devices share.

Source: pkg/apis/resource/{types.go,validation} (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors, Word
from fairlead.api.objects import Obj
from fairlead.kinds.rules import check, validate_driver_name, validate_unique

#: Characters of the parts of `domain/id`, and of an attribute's text.
DOMAIN_MAX: Final = 63
ID_MAX: Final = 32
VALUE_MAX: Final = 64
#: Attributes and capacities of a device together.
MOST_ATTRIBUTES: Final = 32

TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

_MOST_BINDING_CONDITIONS: Final = 4
_POOL_MAX: Final = 253
_KEY_MAX: Final = DOMAIN_MAX + 1 + ID_MAX
_C_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_C_IDENTIFIER_TEXT: Final = names.regex_error(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'",
    _C_IDENTIFIER.pattern,
    "my_name",
    "MY_NAME",
    "MyName",
)


def validate_count(found: Sized, most: int, path: str, errors: Errors) -> bool:
    """Whether there are few enough to be looked at."""
    if len(found) > most:
        errors.too_many(path, len(found), most)
    return len(found) <= most


def validate_pool_name(name: str, path: str, errors: Errors) -> None:
    """Subdomains with slashes between them."""
    if not name:
        errors.required(path)
        return
    if len(name.encode()) > _POOL_MAX:
        errors.too_long(path, _POOL_MAX)
    for part in name.split("/") if len(name) <= _POOL_MAX else ():
        check(errors, path, part, names.dns1123_subdomain)


def validate_qualified_name(name: str, path: str, errors: Errors) -> None:
    """`id` or `domain/id` of an attribute or capacity."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        _validate_identifier(name, path, errors)
        return
    if "/" in identifier:
        errors.invalid(path, name, "must not contain more than one slash")
        return
    if not domain:
        errors.invalid(path, "", "the domain must not be empty")
    else:
        validate_driver_name(domain, path, errors)
    if not identifier:
        errors.invalid(path, "", "the name must not be empty")
    else:
        _validate_identifier(identifier, path, errors)


def at_key(path: str, name: str) -> str:
    """The path of an attribute or capacity; the middle of a long name is left out."""
    if len(name) > _KEY_MAX:
        name = f"{name[:47]}...{name[-46:]}"
    return f"{path}[{name}]"


def validate_fully_qualified_name(name: str, path: str, errors: Errors) -> None:
    validate_qualified_name(name, path, errors)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.invalid(path, Word(name), text)


def _validate_identifier(name: str, path: str, errors: Errors) -> None:
    if len(name.encode()) > ID_MAX:
        errors.too_long(path, ID_MAX)
    if not _C_IDENTIFIER.fullmatch(name):
        errors.invalid(path, name, _C_IDENTIFIER_TEXT)


def validate_binding(obj: Obj, path: str, errors: Errors) -> None:
    """What must be true of a device, and what must not, before a pod is bound that uses it."""
    wanted, unwanted = obj.get("bindingConditions") or [], obj.get("bindingFailureConditions") or []
    for field, conditions in (("bindingConditions", wanted), ("bindingFailureConditions", unwanted)):
        here = f"{path}.{field}"
        if validate_count(conditions, _MOST_BINDING_CONDITIONS, here, errors):
            for index, condition in enumerate(conditions):
                check(errors, f"{here}[{index}]", condition, names.qualified_name)
            validate_unique(conditions, here, errors)
    both = set(wanted)
    for index, condition in enumerate(unwanted):
        if condition in both:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            errors.invalid(f"{path}.bindingFailureConditions[{index}]", condition, text)
    if unwanted and not wanted:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.invalid(f"{path}.bindingConditions", wanted or None, text)
    if wanted and not unwanted:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.invalid(f"{path}.bindingFailureConditions", unwanted or None, text)
