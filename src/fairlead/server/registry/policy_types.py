"""Checks admission policies against the types of what they match, and writes what it finds into their status.

A policy is compiled without types when it is written, for it may match anything. What it names it is checked against
here: `object.spec.replica` is told, and refused nothing. Source: apiserver,
admission/plugin/policy/validating/typechecking.go; pkg/controller/validatingadmissionpolicystatus (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from itertools import product
from typing import Final

from fairlead.api.errors import ApiError, Conflict, NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.cel.environment import Environment
from fairlead.cel.errors import CompileError
from fairlead.cel.types import ObjectField, ObjectType, Type
from fairlead.kinds.admission_expressions import variables_of
from fairlead.runtime.offload import offload
from fairlead.server.context import INTERNAL
from fairlead.server.openapi.cel_types import type_of
from fairlead.server.registry.registry import Registry

QUALIFIED: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
#: Against how many kinds a policy is checked.
_MOST_KINDS: Final = 10

log = logging.getLogger(__name__)


class PolicyTypes:
    """Follows the policies. Make it before the registry is opened, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changed: asyncio.Queue[str] = asyncio.Queue()
        registry.observers[QUALIFIED] = self._observe

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is not None:
            self._changed.put_nowait(name)

    async def run(self) -> None:
        """Check policy after policy as they are written, until cancelled."""
        while True:
            name = await self._changed.get()
            try:
                await self._check(name)
            except (Conflict, NotFound):  # a newer one of it comes
                continue
            except ApiError as error:
                log.warning("the types of policy %s: %s", name, error)

    async def _check(self, name: str) -> None:
        found = self._registry.find(QUALIFIED, name)
        if found is None:
            return
        policy = found.obj()
        generation = metadata(policy).get("generation", 0)
        if (policy.get("status") or {}).get("observedGeneration") == generation:
            return
        types = list(self._kinds(policy["spec"]))
        warnings = await offload(lambda: _warnings(policy["spec"], types), is_long=len(types) > 1)
        checked = {"expressionWarnings": warnings} if warnings else {}
        policy["status"] = (policy.get("status") or {}) | {"observedGeneration": generation, "typeChecking": checked}
        await self._registry.update(INTERNAL, self._row(), policy, subresource="status")

    def _row(self) -> Resource:
        served = self._registry.catalogue.stored(QUALIFIED)
        assert served is not None
        return served.resource

    def _kinds(self, spec: Obj) -> Iterator[tuple[str, Type]]:
        """The kinds that a policy names, each with its type; those that it means by wildcards are not looked for."""
        found: dict[tuple[str, str, str], Type] = {}
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
            if any("*" in name for name in (*groups, *versions)):
                continue
            resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
            for group, version, resource in product(sorted(groups), sorted(versions), sorted(resources)):
                served = self._registry.catalogue.find(group, version, resource)
                if served is not None and len(found) < _MOST_KINDS:
                    found[group, version, served[1].resource.kind] = type_of(served[0], served[1].resource)
        for (group, version, kind), type_ in sorted(found.items(), key=lambda item: item[0]):
            yield f"{group}/{version}, Kind={kind}", type_


def _warnings(spec: Obj, kinds: list[tuple[str, Type]]) -> list[Obj]:
    """What is wrong with the expressions of a policy, for each that is wrong with some kind."""
    environments = [(kind, _environment(spec, type_)) for kind, type_ in kinds]
    found = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field) or ""
            faults = ((kind, _fault(environment, text)) for kind, environment in environments if text)
            if told := [f"{kind}: {fault}\n" for kind, fault in faults if fault]:
                found.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(told)})
    return found


def _environment(spec: Obj, type_: Type) -> Environment:
    """What expressions of the policy see, if what they are asked about is of that type."""
    declared = variables_of(bool(spec.get("paramKind"))) | {"object": type_, "oldObject": type_}
    composed: dict[str, ObjectField] = {}
    for variable in spec.get("variables") or ():
        name = variable.get("name") or ""
        environment = Environment(declared | {"variables": ObjectType.named("kubernetes.variables", dict(composed))})
        try:
            composed[name] = ObjectField(name, environment.compile(variable.get("expression") or "").type)
        except CompileError:
            continue
    return Environment(declared | {"variables": ObjectType.named("kubernetes.variables", composed)})


def _fault(environment: Environment, text: str) -> str:
    try:
        environment.compile(text)
    except CompileError as error:
        return str(error)
    return ""
