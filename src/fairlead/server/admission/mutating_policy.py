"""MutatingAdmissionPolicy: policies in CEL change objects, by an apply configuration or by a JSON patch.

One policy after the other sees what those before it changed; who says `reinvocationPolicy: IfNeeded` is asked once more
if the object was changed afterwards. What fails is gathered, and refuses the request unless it may be ignored.
Source: apiserver/pkg/admission/plugin/policy/mutating and policy/generic (1.36).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead.api.encoded import Encoded, copied
from fairlead.api.errors import ApiError, Cause, InternalError, foreign
from fairlead.api.objects import Obj, name_of
from fairlead.api.patches.bodies import PatchDoesNotApply
from fairlead.api.patches.json import JsonPatch, apply_json_patch
from fairlead.api.resources import Resource
from fairlead.cel.errors import CelError
from fairlead.cel.mutation import to_json
from fairlead.kinds.mutating_policies import CompiledMutations, Mutation, compile_mutations
from fairlead.server.admission import matching
from fairlead.server.admission.base import (
    AdmissionPlugin,
    Attributes,
    Dependencies,
    Operation,
    Reinvocation,
    RequestView,
)
from fairlead.server.admission.evaluation import CONDITIONS_BUDGET, POLICY_BUDGET, Budget, Until
from fairlead.server.admission.expressions import activation, all_hold, namespace_of
from fairlead.server.admission.policy_inputs import LazyVariables, bound_policies, params_of

_POLICIES: Final = "mutatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS: Final = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"


class _Policy(msgspec.Struct, frozen=True):
    """A policy as it is stored, compiled."""

    name: str
    spec: Obj
    expressions: CompiledMutations


class _Failure(msgspec.Struct, frozen=True):
    """What went wrong with a policy, and under which reason that is told."""

    text: str
    reason: str


class _Invocation(msgspec.Struct, frozen=True):
    """A policy that is asked by one binding with one parameter."""

    policy: _Policy
    binding: str
    params: Encoded | None
    row: Resource

    @property
    def uid(self) -> str:
        param = self.params.metadata() if self.params else {}
        return f"{self.policy.name}/{self.binding}/{param.get('namespace', '')}/{param.get('name', '')}"

    def shown_params(self) -> dict[str, Obj | None]:
        """The variable that holds them; decoded anew, since there may be many invocations and large parameters."""
        return {"params": self.params.obj() if self.params else None}

    def failure(self, why: str, reason: str = "Invalid") -> _Failure:
        who = f"policy '{self.policy.name}' with binding '{self.binding}'"
        return _Failure(f"{who} denied request: {why}", reason)


class _MutationError(Exception):
    """Why an object is not changed."""


def _policy(entry: Encoded) -> _Policy:
    obj = entry.obj()
    return _Policy(name_of(obj), obj["spec"], compile_mutations(obj["spec"]))


class MutatingAdmissionPolicy(AdmissionPlugin):
    name = "MutatingAdmissionPolicy"
    subresources = None
    operations = frozenset({Operation.CREATE, Operation.UPDATE, Operation.CONNECT})

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer = dependencies.authorizer

    async def admit(self, attributes: Attributes) -> None:
        if attributes.view is None or matching.is_exempt(attributes):
            return
        failures: list[_Failure] = []
        invocations = await self._invocations(attributes, failures)
        if invocations:
            attributes.reinvocation = rounds = attributes.reinvocation or Reinvocation()
            rounds.begin(self.name, attributes.obj)
            for invocation in invocations:
                await self._invoke(invocation, attributes, attributes.view, rounds, failures)
            rounds.end(self.name, attributes.obj)
        if failures:
            raise _refusal(attributes, failures)

    async def _invocations(self, attributes: Attributes, failures: list[_Failure]) -> list[_Invocation]:
        """Who is asked about a request, before anybody changes it."""
        found = []
        for policy, bindings in bound_policies(self._reader, _POLICIES, _BINDINGS, _policy):
            row = matching.matched(policy.spec.get("matchConstraints"), attributes, self._reader)
            for binding in bindings if row is not None else ():
                if matching.matched(binding["spec"].get("matchResources"), attributes, self._reader) is None:
                    continue
                assert row is not None
                kind, reference = policy.spec.get("paramKind"), binding["spec"].get("paramRef")
                try:
                    params = await params_of(kind, reference, attributes, self._reader)
                except LookupError as error:
                    failed = _Invocation(policy, name_of(binding), None, row)
                    if _fails(policy):
                        failures.append(failed.failure(f"failed to configure binding: {error.args[0]}", "Forbidden"))
                    continue
                found += [_Invocation(policy, name_of(binding), param, row) for param in params]
        return found

    async def _invoke(
        self,
        invocation: _Invocation,
        attributes: Attributes,
        view: RequestView,
        rounds: Reinvocation,
        failures: list[_Failure],
    ) -> None:
        policy, conditions = invocation.policy, invocation.policy.expressions.conditions
        variables = await self._variables(invocation, attributes) if conditions else {}
        try:
            if not await attributes.time.evaluate(
                lambda until: all_hold(
                    conditions, variables | invocation.shown_params(), Budget(CONDITIONS_BUDGET, until)
                )
            ):
                return
        except CelError as error:
            if _fails(policy):
                failures.append(invocation.failure(str(error)))
            return
        if rounds.is_running and invocation.uid not in rounds.due:
            return
        before = attributes.obj
        for mutation in policy.expressions.mutations:
            try:
                await self._mutate(mutation, invocation, attributes, view)
            except (_MutationError, CelError) as error:
                if _fails(policy):
                    failures.append(invocation.failure(str(error)))
        if attributes.obj != before:
            rounds.require()
            rounds.is_wanted = True
        if policy.spec.get("reinvocationPolicy") == "IfNeeded":
            rounds.eligible.add(invocation.uid)

    async def _variables(self, invocation: _Invocation, attributes: Attributes) -> dict[str, Any]:
        row = invocation.row
        variables = activation(attributes, row, await attributes.shown(row), self._authorizer)
        return variables | {"namespaceObject": namespace_of(attributes, self._reader)}

    async def _mutate(
        self, mutation: Mutation, invocation: _Invocation, attributes: Attributes, view: RequestView
    ) -> None:
        """Change the object once; each mutation sees what those before it changed."""
        row, composed = invocation.row, invocation.policy.expressions.variables
        shown = await self._variables(invocation, attributes)
        obj: Obj = shown["object"]

        def changed(until: Until) -> Obj:
            budget, variables = Budget(POLICY_BUDGET, until), shown | invocation.shown_params()
            known = variables | {"variables": LazyVariables(composed, variables, budget)}
            value = to_json(budget.evaluate(mutation.program, known))
            if mutation.fault:
                raise _MutationError(mutation.fault)
            return _patched(obj, value) if mutation.is_patch else _applied(obj, value, row, view)

        made = await attributes.time.evaluate(changed, is_long=attributes.is_long)
        if made == obj:
            return
        try:
            attributes.obj = await view.taken(made, row)
        except ApiError as error:
            raise InternalError.of(error.message) from None


def _fails(policy: _Policy) -> bool:
    return policy.spec.get("failurePolicy") != "Ignore"


def _patched(obj: Obj, operations: list[Obj]) -> Obj:
    """The object with a JSON patch; as it is if one of its tests fails."""
    try:
        made = apply_json_patch(obj, JsonPatch(tuple(operations)))
    except PatchDoesNotApply as error:
        if error.why.endswith("test failed"):
            return obj
        raise _MutationError(f"JSON Patch: {error.why}") from None
    if not isinstance(made, dict):
        raise _MutationError("JSON Patch: the patched object is none")
    return made


def _applied(obj: Obj, config: Obj, row: Resource, view: RequestView) -> Obj:
    kind = view.kind(row)
    typed: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    try:
        return view.applied(obj, copied(config | typed), row)
    except ValueError as error:
        raise _MutationError(f"error applying patch: {error}") from None


def _refusal(attributes: Attributes, failures: list[_Failure]) -> ApiError:
    """The first failure is the message, and all are causes; the code is that of a policy's refusal."""
    refusal = attributes.forbidden("")
    refusal.causes.clear()
    refusal.causes.extend(Cause("", failure.text) for failure in failures)
    return foreign(refusal.status() | {"message": failures[0].text, "reason": failures[0].reason})
