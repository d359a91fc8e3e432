"""ValidatingAdmissionPolicy: policies in CEL refuse requests, or warn of them.

A policy does something where a binding says so. Both count as soon as they are committed.
Source: apiserver/pkg/admission/plugin/policy/validating (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, Cause, EntityTooLarge, Forbidden, Invalid, Unauthorized
from fairlead.api.fields import HTML
from fairlead.api.objects import Obj, name_of
from fairlead.cel.errors import CelError
from fairlead.cel.scope import Meter
from fairlead.kinds.admission_policies import CompiledPolicy, Validation, compile_policy
from fairlead.server.admission import matching
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation, Reader
from fairlead.server.admission.expressions import activation, all_hold, namespace_of
from fairlead.server.admission.policy_inputs import REQUEST_BUDGET, LazyVariables, bound_policies, params_of
from fairlead.server.admission.remembered import Remembered

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


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that does not hold: the validation of that number, or what comes before them all."""

    message: str
    reason: str = "Invalid"
    index: int = 0
    #: Whether it refuses the request whatever a binding wants done: nobody knows what the policy would have said.
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class _Policy:
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
        self._policies: Remembered[_Policy] = Remembered(_policy)
        self._bindings: Remembered[Obj] = Remembered(Encoded.obj)

    async def validate(self, attributes: Attributes) -> None:
        if matching.is_exempt(attributes):
            return
        refusals: list[ApiError] = []
        for policy, bindings in bound_policies(self._reader, _POLICIES, _BINDINGS, self._policies, self._bindings):
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
            for denial in asking.denials(binding["spec"]):
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

    def denials(self, binding: Obj) -> Iterator[Denial]:
        """What does not hold, by this binding and its parameters."""
        try:
            params = list(
                params_of(self._spec.get("paramKind"), binding.get("paramRef"), self._attributes, self._reader)
            )
        except LookupError as error:
            if self._fails:
                yield Denial(f"failed to configure binding: {error.args[0]}", is_final=True)
            return
        for found in params:
            yield from self._with_params(found)

    @property
    def _fails(self) -> bool:
        return self._spec.get("failurePolicy") != "Ignore"

    def _with_params(self, params: Obj | None) -> Iterator[Denial]:
        meter = Meter(REQUEST_BUDGET)
        variables = self._variables | {"params": params}
        variables["variables"] = LazyVariables(self._policy.variables, variables, meter)
        try:
            if not all_hold(self._policy.conditions, variables, meter):
                return
        except CelError as error:
            if self._fails:
                yield Denial(str(error))
            return
        for index, validation in enumerate(self._policy.validations):
            try:
                holds = validation.program.metered(variables, meter)
            except CelError as error:
                if self._fails:
                    yield Denial(f"expression '{validation.expression}' resulted in error: {error}", index=index)
                continue
            if holds is not True:
                yield Denial(_message(validation, variables, meter), validation.reason, index)
        yield from self._annotated(variables)

    def _annotated(self, variables: dict[str, Any]) -> Iterator[Denial]:
        """Work out what the audit log is told, which has a budget of its own."""
        meter = Meter(REQUEST_BUDGET)
        variables = variables | {"variables": LazyVariables(self._policy.variables, variables, meter)}
        for annotation in self._policy.audit_annotations:
            try:
                value = annotation.program.metered(variables, meter)
            except CelError as error:
                if self._fails:
                    yield Denial(f"expression '{annotation.expression}' resulted in error: {error}", is_final=True)
                continue
            if isinstance(value, str) and (text := value.strip()):
                self.told.setdefault(annotation.key, {})[text[:_LONGEST_ANNOTATION]] = None


def _message(validation: Validation, variables: Mapping[str, Any], meter: Meter) -> str:
    """What its expression says, if that is one line; else its message, or the expression itself."""
    text = ""
    if validation.message_program is not None:
        try:
            text = str(validation.message_program.metered(variables, meter)).strip()
        except CelError:
            text = ""
    if not text or "\n" in text or len(text) > _LONGEST_MESSAGE:
        text = validation.message
    return text or f"failed expression: {validation.expression}"
