"""Which names of resources may stand where: in a container, a quota, a limit range, a node.

The same word can be right in one list and wrong in the next, and the texts about it must be the same wherever it is
wrong. Source: pkg/apis/core/helper/helpers.go and `validate*ResourceName` in pkg/apis/core/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_hugepages, is_native
from fairlead.api.quantity import is_integer, parse, round_up_to_milli

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUOTA: Final = (
    _COUNTED.union(_COMPUTE)
    .union(f"requests.{name}" for name in (*_COMPUTE, "storage"))
    .union(f"limits.{name}" for name in _COMPUTE)
)
_STANDARD: Final = _QUOTA | {"storage"}
_CONTAINER: Final = frozenset(_COMPUTE)
_REQUESTS: Final = "requests."


def is_quota_name(name: str) -> bool:
    """Whether quota tracking knows the (unqualified) name."""
    return name in _QUOTA or is_hugepages(name.removeprefix(_REQUESTS))


def is_extended(name: str) -> bool:
    """A resource of somebody else's domain."""
    return not is_native(name) and not name.startswith(_REQUESTS) and not names.qualified_name(_REQUESTS + name)


def validate_resource_name(name: str, path: str, errors: Errors) -> None:
    if wrong := names.qualified_name(name):
        for text in wrong:
            errors.invalid(path, name, text)
    elif "/" not in name and name not in _STANDARD and not is_hugepages(name.removeprefix(_REQUESTS)):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def validate_container_resource_name(name: str, path: str, errors: Errors) -> None:
    validate_resource_name(name, path, errors)
    if "/" not in name:
        if name not in _CONTAINER and not is_hugepages(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def validate_quota_name(name: str, path: str, errors: Errors) -> None:
    validate_resource_name(name, path, errors)
    if "/" not in name and not is_quota_name(name):
        errors.invalid(path, name, "must be a standard resource for quota")


def validate_amount(name: str, amount: str, path: str, errors: Errors) -> None:
    """A quantity of a resource in a quota or on a node."""
    if parse(amount).nanos < 0:
        errors.invalid(path, amount, "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and not is_integer(amount):
        errors.invalid(path, amount, "must be an integer")


def validate_basic_amount(amount: str, path: str, errors: Errors) -> None:
    """An amount of storage."""
    if (value := parse(amount).units) < 0:
        errors.invalid(path, value, "must be a valid resource quantity")


def round_up(amounts: Obj | None) -> None:
    """What defaulting does to every list of resources (S0-42)."""
    if amounts:
        for name, amount in amounts.items():
            amounts[name] = round_up_to_milli(amount)


def in_order(amounts: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """The entries of a list of resources, sorted; Go has them in random order."""
    return sorted(amounts.items()) if amounts else []
