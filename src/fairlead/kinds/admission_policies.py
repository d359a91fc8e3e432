"""Admission policies in CEL: what they may say, and what they are compiled to.

Source: pkg/apis/admissionregistration/validation and apiserver/pkg/admission/plugin/policy (1.36). The server asks the
compiled policies (`server/admission/validating_policy.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.cel.environment import Environment, Program
from fairlead.cel.types import BOOL, NULL, STRING, ObjectField, ObjectType, Type
from fairlead.kinds.admission_expressions import (
    MOST_CHARACTERS,
    Condition,
    compile_conditions,
    compile_expression,
    validate_condition_names,
    variables_of,
)
from fairlead.kinds.admission_rules import default_match, validate_failure_policy, validate_match
from fairlead.kinds.others import CountedStrategy

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Validation(msgspec.Struct, frozen=True):
    """What must hold, and what is told if it does not."""

    expression: str
    program: Program
    message_program: Program | None
    message: str
    reason: str


class AuditAnnotation(msgspec.Struct, frozen=True):
    """What the audit log is told under a key."""

    key: str
    expression: str
    program: Program


class CompiledPolicy(msgspec.Struct, frozen=True):
    """The expressions of a policy."""

    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, Program], ...]
    validations: tuple[Validation, ...]
    audit_annotations: tuple[AuditAnnotation, ...]


def compile_policy(spec: Obj, errors: Errors | None = None) -> CompiledPolicy:
    """Compile a policy. What does not compile is added to `errors` and left out; without them there is nothing such."""
    compiler = PolicyCompiler(spec, Errors() if errors is None else errors)
    return compiler.compile()


class PolicyCompiler:
    """Compiles what policies have in common, and what validates."""

    def __init__(self, spec: Obj, errors: Errors) -> None:
        self._spec, self._errors = spec, errors
        self._has_params = bool(spec.get("paramKind"))
        self._composed: dict[str, ObjectField] = {}

    def compile(self) -> CompiledPolicy:
        conditions, variables = self.conditions(), self.variables()
        validations = []
        for index, validation in enumerate(self._spec.get("validations") or ()):
            if found := self._validation(validation, f"spec.validations[{index}]"):
                validations.append(found)
        annotations = []
        for index, annotation in enumerate(self._spec.get("auditAnnotations") or ()):
            path, source = f"spec.auditAnnotations[{index}].valueExpression", annotation.get("valueExpression")
            if program := compile_expression(self.environment(), source, path, self._errors, STRING, NULL):
                annotations.append(AuditAnnotation(annotation.get("key", ""), source, program))
        return CompiledPolicy(conditions, variables, tuple(validations), tuple(annotations))

    def conditions(self) -> tuple[Condition, ...]:
        """Under which the policy is asked at all."""
        given = self._spec.get("matchConditions") or ()
        return compile_conditions(given, "spec.matchConditions", self._errors, has_params=self._has_params)

    def variables(self) -> tuple[tuple[str, Program], ...]:
        """What later expressions know, in order."""
        variables = []
        for index, variable in enumerate(self._spec.get("variables") or ()):
            path, name = f"spec.variables[{index}].expression", variable.get("name", "")
            if program := self._required(variable.get("expression"), path):
                self._composed[name] = ObjectField(name, program.type)
                variables.append((name, program))
        return tuple(variables)

    def environment(
        self, objects: Mapping[str, ObjectType] | None = None, *, has_authorizer: bool = True
    ) -> Environment:
        """What an expression knows; `objects` may be made in it."""
        declared = variables_of(self._has_params, has_authorizer=has_authorizer)
        composed = ObjectType.named("kubernetes.variables", dict(self._composed))
        return Environment(declared | {"variables": composed}, objects)

    def _required(self, source: str | None, path: str, *wanted: Type) -> Program | None:
        """What is compiled of an expression that nothing can do without."""
        environment, missing = self.environment(), "expression is not specified"
        return compile_expression(environment, source, path, self._errors, *wanted, missing=missing)

    def _validation(self, validation: Mapping[str, Any], path: str) -> Validation | None:
        program = self._required(validation.get("expression"), f"{path}.expression", BOOL)
        message = None
        if text := validation.get("messageExpression"):
            environment = self.environment(has_authorizer=False)
            message = compile_expression(environment, text, f"{path}.messageExpression", self._errors, STRING)
        if program is None:
            return None
        return Validation(
            validation["expression"].strip(),
            program,
            message,
            (validation.get("message") or "").strip(),
            validation.get("reason") or "Invalid",
        )


# -- what policies and bindings may say


class ValidatingAdmissionPolicyStrategy(CountedStrategy):
    slow_bytes = 4 << 10  # expressions take long to compile

    def __init__(self) -> None:
        super().__init__(has_status=True, allows_unconditional_update=False)

    def default(self, obj: Obj) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("failurePolicy", "Fail")
            default_match(spec.get("matchConstraints"))

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj.get("spec") or {}
        _validate_form(spec, errors)
        if are_bounded(_expressions(spec), errors):
            compile_policy(spec, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if obj.get("spec") != old.get("spec"):
            self.validate(obj, errors)


def _expressions(spec: Obj) -> Iterator[str | None]:
    keys = ("expression", "messageExpression", "valueExpression")
    lists = (spec.get(key) or () for key in ("matchConditions", "variables", "validations", "auditAnnotations"))
    return (item.get(key) for items in lists for item in items for key in keys)


def are_bounded(expressions: Iterable[str | None], errors: Errors) -> bool:
    """Whether all expressions of a policy together may be compiled."""
    if sum(len(expression or "") for expression in expressions) <= MOST_CHARACTERS:
        return True
    errors.invalid("spec", "", f"expressions have more than {MOST_CHARACTERS} characters together")
    return False


def validate_common(spec: Obj, errors: Errors) -> None:
    """What all policies have beside their expressions."""
    validate_failure_policy(spec, "spec", errors)
    if kind := spec.get("paramKind"):
        _validate_param_kind(kind, errors)
    if not (match := spec.get("matchConstraints")):
        errors.required("spec.matchConstraints")
    else:
        if not match.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
        validate_match(match, "spec.matchConstraints", errors)
    validate_condition_names(spec.get("matchConditions") or (), "spec.matchConditions", errors)
    for index, variable in enumerate(spec.get("variables") or ()):
        name = variable.get("name") or ""
        if not name:
            errors.required(f"spec.variables[{index}].name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            errors.invalid(f"spec.variables[{index}].name", name, "name is not a valid CEL identifier")


def _validate_form(spec: Obj, errors: Errors) -> None:
    validate_common(spec, errors)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        errors.required("spec.validations", text)
        errors.required("spec.auditAnnotations", text)
    for index, validation in enumerate(spec.get("validations") or ()):
        _validate_validation(validation, f"spec.validations[{index}]", errors)


def _validate_param_kind(kind: Obj, errors: Errors) -> None:
    if not kind.get("apiVersion"):
        errors.required("spec.paramKind.apiVersion")
    if not kind.get("kind"):
        errors.required("spec.paramKind.kind")


def _validate_validation(validation: Obj, path: str, errors: Errors) -> None:
    message = validation.get("message") or ""
    if message and not message.strip():
        errors.invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif "\n" in message.strip():
        errors.invalid(f"{path}.message", message, "message must not contain line breaks")
    elif "\n" in (validation.get("expression") or "").strip() and not message.strip():
        errors.required(f"{path}.message", "message must be specified if expression contains line breaks")
    if validation.get("reason") is not None and validation["reason"] not in _REASONS:
        errors.not_supported(f"{path}.reason", validation["reason"], _REASONS)


class AdmissionPolicyBindingStrategy(CountedStrategy):
    """What bindings of all policies say."""

    def __init__(self) -> None:
        super().__init__(allows_unconditional_update=False)

    def default(self, obj: Obj) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            default_match(spec.get("matchResources"))

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj.get("spec") or {}
        if not (name := spec.get("policyName")):
            errors.required("spec.policyName")
        else:
            for fault in dns1123_subdomain(name):
                errors.invalid("spec.policyName", name, fault)
        if reference := spec.get("paramRef"):
            _validate_param_ref(reference, errors)
        if match := spec.get("matchResources"):
            validate_match(match, "spec.matchResources", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)


class ValidatingAdmissionPolicyBindingStrategy(AdmissionPolicyBindingStrategy):
    def validate(self, obj: Obj, errors: Errors) -> None:
        super().validate(obj, errors)
        _validate_actions((obj.get("spec") or {}).get("validationActions") or [], errors)


def _validate_actions(actions: Sequence[str], errors: Errors) -> None:
    if not actions:
        errors.required("spec.validationActions", "at least one validation action is required")
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if action in seen:
            errors.duplicate(f"spec.validationActions[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        errors.invalid("spec.validationActions", list(actions), f"{text}response and headers serves no purpose)")


def _validate_param_ref(reference: Obj, errors: Errors) -> None:
    path, name, selector = "spec.paramRef", reference.get("name"), reference.get("selector")
    if name and selector is not None:
        errors.forbidden(f"{path}.name", "name and selector are mutually exclusive")
        errors.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    elif not name and selector is None:
        errors.required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        errors.required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        errors.not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))
