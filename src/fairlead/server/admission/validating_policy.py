"""ValidatingAdmissionPolicy: policies in CEL refuse requests, or warn of them.

A policy does something where a binding says so. Both count as soon as they are committed.
Source: apiserver/pkg/admission/plugin/policy/validating (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, Cause, EntityTooLarge, Forbidden, Invalid, Unauthorized
from fairlead.api.fields import HTML
from fairlead.api.objects import Obj, name_of
from fairlead.cel.errors import CelError
from fairlead.kinds.admission_policies import CompiledPolicy, Validation, compile_policy
from fairlead.server.admission import matching
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation, Reader
from fairlead.server.admission.evaluation import CONDITIONS_BUDGET, POLICY_BUDGET, Budget, OutOfBudgetError, Until
from fairlead.server.admission.expressions import activation, all_hold, namespace_of
from fairlead.server.admission.policy_inputs import LazyVariables, bound_policies, params_of

_POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS: Final = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_LONGEST_MESSAGE: Final = 5_120
_LONGEST_ANNOTATION: Final = 10 << 10
#: Under which key the audit log tells of what does not hold.
_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_REFUSALS: Final[Mapping[str, type[ApiError]]] = {
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "RequestEntityTooLarge": EntityTooLarge,
    "Invalid": Invalid,
}


class Denial(msgspec.Struct, frozen=True):
    """Something that does not hold: the validation of that number, or what comes before them all."""

    message: str
    reason: str = "Invalid"
    index: int = 0
    #: Whether it refuses the request whatever a binding wants done: nobody knows what the policy would have said.
    is_final: bool = False


class _Policy(msgspec.Struct, frozen=True):
    """A policy as it is stored, compiled."""

    name: str
    spec: Obj
    expressions: CompiledPolicy


def _policy(entry: Encoded) -> _Policy:
    obj = entry.obj()
    return _Policy(name_of(obj), obj["spec"], compile_policy(obj["spec"]))


class ValidatingAdmissionPolicy(AdmissionPlugin):
    name = "ValidatingAdmissionPolicy"
    subresources = None
    operations = frozenset(Operation)

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer = dependencies.authorizer

    async def validate(self, attributes: Attributes) -> None:
        if matching.is_exempt(attributes):
            return
        refusals: list[ApiError] = []
        for policy, bindings in bound_policies(self._reader, _POLICIES, _BINDINGS, _policy):
            refusals += await self._ask(policy, bindings, attributes)
        if refusals:  # the others have been asked all the same, and have warned
            raise refusals[0]

    async def _ask(self, policy: _Policy, bindings: list[Obj], attributes: Attributes) -> list[ApiError]:
        """What refuses the request, by this policy and its bindings; warns, and tells the audit log."""
        spec, refusals = policy.spec, list[ApiError]()
        row = matching.matched(spec.get("matchConstraints"), attributes, self._reader)
        if row is None:
            return refusals
        asking: _Asking | None = None
        for binding in bindings:
            if matching.matched(binding["spec"].get("matchResources"), attributes, self._reader) is None:
                continue
            if asking is None:
                variables = activation(attributes, row, await attributes.shown(row), self._authorizer)
                variables["namespaceObject"] = namespace_of(attributes, self._reader)
                asking = _Asking(policy, attributes, self._reader, variables)
            for denial in await asking.denials(binding["spec"]):
                refusals += _carried_out(denial, policy.name, binding, attributes)
        if asking is not None:
            for key, values in asking.told.items():
                attributes.annotate(f"{policy.name}/{key}", ", ".join(values))
        return refusals


def _carried_out(denial: Denial, policy: str, binding: Obj, attributes: Attributes) -> Iterator[ApiError]:
    """Do what the binding wants done; a refusal is the caller's."""
    actions, bound = binding["spec"].get("validationActions") or (), name_of(binding)
    if "Audit" in actions and not denial.is_final:
        failure = {
            "message": denial.message,
            "policy": policy,
            "binding": bound,
            "expressionIndex": denial.index,
            "validationActions": list(actions),
        }
        attributes.annotate(_FAILURE, encode([failure]).decode().translate(HTML))
    if "Warn" in actions and not denial.is_final:
        attributes.warnings.append(
            f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{bound}': {denial.message}"
        )
    if "Deny" in actions or denial.is_final:
        message = f"ValidatingAdmissionPolicy '{policy}' with binding '{bound}' denied request: {denial.message}"
        yield _refusal(attributes, message, denial.reason)


def _refusal(attributes: Attributes, message: str, reason: str) -> ApiError:
    forbidden = attributes.forbidden(message)
    refusal = _REFUSALS.get(reason, Invalid)(forbidden.message, causes=[Cause("", message)])
    refusal.details = forbidden.details
    return refusal


class _Asking:
    """One policy asked about one request, by all its bindings."""

    def __init__(self, policy: _Policy, attributes: Attributes, reader: Reader, variables: dict[str, Any]) -> None:
        self._spec, self._attributes, self._reader = policy.spec, attributes, reader
        self._policy, self._variables = policy.expressions, variables
        #: What the audit log is to be told, by all bindings and parameters: each text once, in their order.
        self.told: dict[str, dict[str, None]] = {}

    async def denials(self, binding: Obj) -> list[Denial]:
        """What does not hold, by this binding and its parameters."""
        try:
            params = await params_of(
                self._spec.get("paramKind"), binding.get("paramRef"), self._attributes, self._reader
            )
        except LookupError as error:
            return self._failed(f"failed to configure binding: {error.args[0]}", is_final=True)
        denials: list[Denial] = []
        for found in params:
            denials += await self._with_params(found)
        return denials

    def _failed(self, message: str, index: int = 0, *, is_final: bool = False) -> list[Denial]:
        """Nobody knows whether the policy holds; its failure policy says what that means."""
        return [] if self._spec.get("failurePolicy") == "Ignore" else [Denial(message, index=index, is_final=is_final)]

    async def _with_params(self, params: Encoded | None) -> list[Denial]:
        denials, told = await self._attributes.time.evaluate(lambda until: self._judged(params, until))
        for key, text in told:
            self.told.setdefault(key, {})[text] = None
        return denials

    def _judged(self, params: Encoded | None, until: Until) -> tuple[list[Denial], list[tuple[str, str]]]:
        """What does not hold, and what the audit log is to be told. Of what exhausts the budget that alone is said."""
        variables = self._variables | {"params": params.obj() if params else None}
        try:
            if not all_hold(self._policy.conditions, variables, Budget(CONDITIONS_BUDGET, until)):
                return [], []
            denials = self._denied(variables, Budget(POLICY_BUDGET, until))
            failures, told = self._annotated(variables, Budget(POLICY_BUDGET, until))
        except CelError as error:
            return self._failed(str(error)), []
        return denials + failures, told

    def _denied(self, variables: dict[str, Any], budget: Budget) -> list[Denial]:
        known = variables | {"variables": LazyVariables(self._policy.variables, variables, budget)}
        denials, judged = list[Denial](), dict[int, bool]()
        for index, validation in enumerate(self._policy.validations):
            try:
                judged[index] = budget.evaluate(validation.program, known) is True
            except OutOfBudgetError:
                raise
            except CelError as error:
                denials += self._failed(str(error), index)
        # What they cost counts whether they are needed or not, and that of variables once more.
        known = variables | {"variables": LazyVariables(self._policy.variables, variables, budget)}
        try:
            messages = [_message(validation, known, budget) for validation in self._policy.validations]
        except OutOfBudgetError as error:  # then nobody knows of those that hold, either
            for index in judged:
                denials += self._failed(f"failed messageExpression: {error}", index)
        else:
            refused = [index for index, holds in judged.items() if not holds]
            denials += [Denial(messages[at], self._policy.validations[at].reason, at) for at in refused]
        return sorted(denials, key=lambda denial: denial.index)

    def _annotated(self, variables: dict[str, Any], budget: Budget) -> tuple[list[Denial], list[tuple[str, str]]]:
        """What the audit log is told, and why it cannot be."""
        failures, told = list[Denial](), list[tuple[str, str]]()
        variables = variables | {"variables": LazyVariables(self._policy.variables, variables, budget)}
        for annotation in self._policy.audit_annotations:
            try:
                value = budget.evaluate(annotation.program, variables)
            except OutOfBudgetError:
                raise
            except CelError as error:
                failures += self._failed(str(error), is_final=True)
                continue
            if isinstance(value, str) and (text := value.strip()):
                told.append((annotation.key, text[:_LONGEST_ANNOTATION]))
        return failures, told


def _message(validation: Validation, variables: Mapping[str, Any], budget: Budget) -> str:
    """What its expression says, if that is one line; else its message, or the expression itself."""
    text = ""
    if validation.message_program is not None:
        try:
            text = str(budget.value(validation.message_program, variables)).strip()
        except OutOfBudgetError:
            raise
        except CelError:
            text = ""
    if not text or "\n" in text or len(text) > _LONGEST_MESSAGE:
        text = validation.message
    return text or f"failed expression: {validation.expression}"
