"""Admission policies in CEL: what they may say, and what they are compiled to.

Source: pkg/apis/admissionregistration/validation and apiserver/pkg/admission/plugin/policy (1.36). The server asks the
compiled policies (`server/admission/validating_policy.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, name_of
from fairlead.api.selectors import validate_structured
from fairlead.cel.environment import Environment, Program
from fairlead.cel.syntax import RESERVED
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
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import NOT_OF_STATUS

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_VALUE: Final = 5 * 1024
_LINE_BREAK: Final = re.compile("[\n\r]")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS: Final = RESERVED | {"true", "false", "null", "in"}


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
            if found_annotation := self._annotation(annotation, f"spec.auditAnnotations[{index}].valueExpression"):
                annotations.append(found_annotation)
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
        if (text := validation.get("messageExpression") or "").strip():
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

    def _annotation(self, annotation: Obj, path: str) -> AuditAnnotation | None:
        source = annotation.get("valueExpression") or ""
        if len(source.strip().encode()) > _LONGEST_VALUE:
            self._errors.required(path, f"must not exceed {_LONGEST_VALUE} bytes in length")
            return None
        environment, missing = self.environment(), "valueExpression is not specified"
        program = compile_expression(environment, source, path, self._errors, STRING, NULL, missing=missing)
        return AuditAnnotation(annotation.get("key", ""), source, program) if program else None


# -- what policies and bindings may say


class ValidatingAdmissionPolicyStrategy(CountedStrategy):
    kept_by_status = NOT_OF_STATUS
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
        _validate_form(spec, name_of(obj), errors)
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
        validate_match(match, "spec.matchConstraints", errors)
        if not match.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
    validate_condition_names(spec.get("matchConditions") or (), "spec.matchConditions", errors)
    for index, variable in enumerate(spec.get("variables") or ()):
        name = variable.get("name") or ""
        if not name:
            errors.required(f"spec.variables[{index}].name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _KEYWORDS:
            errors.invalid(f"spec.variables[{index}].name", name, "name is not a valid CEL identifier")


def _validate_form(spec: Obj, name: str, errors: Errors) -> None:
    validate_common(spec, errors)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        errors.required("spec.validations", text)
        errors.required("spec.auditAnnotations", text)
    for index, validation in enumerate(spec.get("validations") or ()):
        _validate_validation(validation, f"spec.validations[{index}]", errors)
    _validate_annotations(spec.get("auditAnnotations") or [], name, errors)


def _validate_annotations(annotations: Sequence[Obj], policy: str, errors: Errors) -> None:
    """The keys of what the audit log is told; there they come after the name of the policy."""
    path, seen = "spec.auditAnnotations", set[str]()
    if len(annotations) > _MOST_ANNOTATIONS:
        fields = (("Key", "key"), ("ValueExpression", "valueExpression"))
        shown = [{go: annotation.get(field, "") for go, field in fields} for annotation in annotations]
        errors.invalid(path, shown, f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations")
    for index, annotation in enumerate(annotations):
        key = annotation.get("key", "")
        check(errors, f"{path}[{index}].key", f"{policy}/{key}", names.qualified_name)
        if key in seen:
            errors.duplicate(f"{path}[{index}].key", key)
        seen.add(key)


def _validate_param_kind(param: Obj, errors: Errors) -> None:
    path, api_version, kind = "spec.paramKind", param.get("apiVersion", ""), param.get("kind", "")
    if not api_version:
        errors.required(f"{path}.apiVersion")
    else:
        _validate_api_version(api_version, f"{path}.apiVersion", errors)
    if not kind:
        errors.required(f"{path}.kind")
    elif wrong := names.dns1035_label(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.invalid(f"{path}.kind", kind, text)


def _validate_api_version(text: str, path: str, errors: Errors) -> None:
    if text.count("/") > 1:
        errors.invalid(path, text, f"unexpected GroupVersion string: {text}")
        return
    group, _, version = text.rpartition("/")
    if group and (wrong := names.dns1123_subdomain(group)):
        errors.invalid(path, group, ",".join(wrong))
    if not version:
        errors.invalid(path, text, "version must be specified")
    elif wrong := names.dns1035_label(version):
        errors.invalid(path, version, ",".join(wrong))


def _validate_validation(validation: Obj, path: str, errors: Errors) -> None:
    message, expression = validation.get("message") or "", validation.get("messageExpression") or ""
    if expression and not expression.strip():
        errors.invalid(f"{path}.messageExpression", expression, "must be non-empty if specified")
    if message and not message.strip():
        errors.invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        errors.invalid(f"{path}.message", message, "message must not contain line breaks")
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
            check(errors, "spec.policyName", name, names.dns1123_subdomain)
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
    has_both = bool(name) and selector is not None
    check(errors, f"{path}.name", name or "", names.path_segment_name)
    if has_both:
        errors.forbidden(f"{path}.name", "name and selector are mutually exclusive")
    validate_structured(selector, errors, f"{path}.selector")
    if has_both:
        errors.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    if not name and selector is None:
        errors.required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        errors.required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        errors.not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"), sort=False)
