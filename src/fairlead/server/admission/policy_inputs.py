"""What policies of both kinds are asked with: their bindings, parameters and variables.

Source: apiserver/pkg/admission/plugin/policy/generic (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.selectors import of_structured
from fairlead.cel.environment import Program
from fairlead.cel.errors import CelError
from fairlead.server.admission.base import Attributes, Reader
from fairlead.server.admission.evaluation import Budget, OutOfBudgetError

T = TypeVar("T")


def bound_policies(
    reader: Reader, policies: str, bindings: str, compiled: Callable[[Encoded], T]
) -> Iterator[tuple[T, list[Obj]]]:
    """The policies that are bound to something, compiled, with their bindings. All are read before anybody is asked."""
    bound: dict[str, list[Obj]] = {}
    for entry in reader.each(bindings):
        binding = entry.kept(Encoded.obj)
        bound.setdefault(binding["spec"]["policyName"], []).append(binding)
    for name, found in bound.items():
        policy = reader.find(policies, name)
        if policy is not None:
            yield policy.kept(compiled), found


class LazyVariables(dict[str, Any]):
    """The variables of a policy: each is worked out once, when it is first asked for."""

    def __init__(self, programs: tuple[tuple[str, Program], ...], variables: Mapping[str, Any], budget: Budget) -> None:
        super().__init__()
        self._programs, self._budget = dict(programs), budget
        self._activation = {**variables, "variables": self}
        self._failed: dict[str, CelError] = {}

    def __missing__(self, name: str) -> Any:
        if (failed := self._failed.get(name)) is not None:
            raise failed
        try:
            value = self._budget.value(self._programs[name], self._activation)
        except OutOfBudgetError:
            raise
        except CelError as error:
            failed = self._failed[name] = CelError(f'composited variable "{name}" fails to evaluate: {error}')
            raise failed from None
        self[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._programs


async def params_of(
    kind: Mapping[str, str] | None, reference: Obj | None, attributes: Attributes, reader: Reader
) -> Sequence[Encoded | None]:
    """The parameters that a binding names; LookupError if it names none. There may be very many, and large ones."""
    if not kind or not reference:
        return [None]
    group, _, version = kind["apiVersion"].rpartition("/")
    row = reader.resource_of(group, version, kind["kind"])
    if row is None:
        raise LookupError(
            f"failed to find resource referenced by paramKind: '{kind['apiVersion']}, Kind={kind['kind']}'"
        )
    namespace = _params_namespace(row, reference, attributes)
    found = await _found_params(row, reference, namespace, reader)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise LookupError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _params_namespace(row: Resource, reference: Obj, attributes: Attributes) -> str:
    if not row.namespaced:
        if reference.get("namespace"):
            raise LookupError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    namespace: str = reference.get("namespace") or attributes.namespace
    if not namespace:
        raise LookupError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    return namespace


async def _found_params(row: Resource, reference: Obj, namespace: str, reader: Reader) -> Sequence[Encoded]:
    if name := reference.get("name"):
        entry = reader.find(row.qualified, name, namespace)
        return [] if entry is None else [entry]
    return await reader.selected(row.qualified, namespace, of_structured(reference.get("selector") or {}))
