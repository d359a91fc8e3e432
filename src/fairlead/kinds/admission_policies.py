"""Admission policies in CEL: what they may say, and what they are compiled to.

Source: pkg/apis/admissionregistration/validation and apiserver/pkg/admission/plugin/policy (1.36). The server asks the
compiled policies (`server/admission/validating_policy.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_subdomain, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.cel.environment import Environment, Program, WrongTypeError
from fairlead.cel.errors import CompileError
from fairlead.cel.functions.authorizer import AUTHORIZER, RESOURCE_CHECK
from fairlead.cel.types import BOOL, DYN, NULL, STRING, ObjectField, ObjectType, Type, list_of, map_of
from fairlead.kinds.others import CountedStrategy

#: How many characters all expressions of a policy may have: to compile them must not hold the loop.
MOST_CHARACTERS: Final = 50_000
_MOST_CONDITIONS: Final = 64
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _object(type_name: str, /, **fields: Type) -> ObjectType:
    return ObjectType.named(type_name, {field: ObjectField(field, type_) for field, type_ in fields.items()})


_KIND: Final = _object("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object(
    "kubernetes.UserInfo", username=STRING, uid=STRING, groups=list_of(STRING), extra=map_of(STRING, list_of(STRING))
)
REQUEST: Final = _object(
    "kubernetes.AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_NAMESPACE_META: Final = _object(
    "kubernetes.NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=map_of(STRING, STRING),
    annotations=map_of(STRING, STRING),
    UID=STRING,
    creationTimestamp=STRING,
    deletionGracePeriodSeconds=DYN,
    deletionTimestamp=STRING,
    generation=DYN,
    resourceVersion=STRING,
    finalizers=list_of(STRING),
)
NAMESPACE: Final = _object(
    "kubernetes.Namespace",
    metadata=_NAMESPACE_META,
    spec=_object("kubernetes.NamespaceSpec", finalizers=list_of(STRING)),
    status=_object("kubernetes.NamespaceStatus", phase=STRING),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A match condition."""

    name: str
    program: Program


@dataclass(frozen=True, slots=True)
class Validation:
    """What must hold, and what is told if it does not."""

    expression: str
    program: Program
    message_program: Program | None
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """The expressions of a policy."""

    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, Program], ...]
    validations: tuple[Validation, ...]


def _variables(has_params: bool, *, has_authorizer: bool = True) -> dict[str, Type]:
    found: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": REQUEST, "namespaceObject": NAMESPACE}
    if has_params:
        found["params"] = DYN
    if has_authorizer:
        found |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return found


def compile_policy(spec: Obj, errors: Errors | None = None) -> CompiledPolicy:
    """Compile a policy. What does not compile is added to `errors` and left out; without them there is nothing such."""
    compiler = _PolicyCompiler(spec, Errors() if errors is None else errors)
    return compiler.compile()


class _PolicyCompiler:
    def __init__(self, spec: Obj, errors: Errors) -> None:
        self._spec, self._errors = spec, errors
        self._has_params = bool(spec.get("paramKind"))
        self._composed: dict[str, ObjectField] = {}

    def compile(self) -> CompiledPolicy:
        plain = Environment(_variables(self._has_params))
        conditions = []
        for index, condition in enumerate(self._spec.get("matchConditions") or ()):
            path = f"spec.matchConditions[{index}].expression"
            if program := self._program(plain, condition.get("expression"), path, BOOL):
                conditions.append(Condition(condition.get("name", ""), program))
        variables = []
        for index, variable in enumerate(self._spec.get("variables") or ()):
            path, name = f"spec.variables[{index}].expression", variable.get("name", "")
            if program := self._program(self._environment(), variable.get("expression"), path):
                self._composed[name] = ObjectField(name, program.type)
                variables.append((name, program))
        validations = []
        for index, validation in enumerate(self._spec.get("validations") or ()):
            if found := self._validation(validation, f"spec.validations[{index}]"):
                validations.append(found)
        for index, annotation in enumerate(self._spec.get("auditAnnotations") or ()):
            path = f"spec.auditAnnotations[{index}].valueExpression"
            self._program(self._environment(), annotation.get("valueExpression"), path, STRING, NULL)
        return CompiledPolicy(tuple(conditions), tuple(variables), tuple(validations))

    def _environment(self, *, has_authorizer: bool = True) -> Environment:
        declared = _variables(self._has_params, has_authorizer=has_authorizer)
        composed = ObjectType.named("kubernetes.variables", dict(self._composed))
        return Environment(declared | {"variables": composed})

    def _validation(self, validation: Mapping[str, Any], path: str) -> Validation | None:
        program = self._program(self._environment(), validation.get("expression"), f"{path}.expression", BOOL)
        message = None
        if text := validation.get("messageExpression"):
            environment = self._environment(has_authorizer=False)
            message = self._program(environment, text, f"{path}.messageExpression", STRING)
        if program is None:
            return None
        return Validation(
            validation["expression"].strip(),
            program,
            message,
            (validation.get("message") or "").strip(),
            validation.get("reason") or "Invalid",
        )

    def _program(self, environment: Environment, source: str | None, path: str, *wanted: Type) -> Program | None:
        if not (source or "").strip():
            self._errors.required(path, "expression is not specified" if path.endswith(".expression") else "")
            return None
        assert source is not None
        try:
            return environment.compile(source, *wanted)
        except CompileError as error:
            self._errors.invalid(path, source, f"compilation failed: {error}")
        except WrongTypeError:
            names = " or ".join("bool" if type_ == BOOL else str(type_) for type_ in wanted)
            self._errors.invalid(path, source, f"must evaluate to {names}")
        return None


# -- what policies and bindings may say


def default_match(match: Obj | None) -> None:
    """Fill in what a match leaves open."""
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(key) or ():
            rule.setdefault("scope", "*")


def _validate_match(match: Obj, path: str, errors: Errors) -> None:
    if match.get("matchPolicy") not in (None, "Equivalent", "Exact"):
        errors.not_supported(f"{path}.matchPolicy", match["matchPolicy"], ("Equivalent", "Exact"))
    for key in ("namespaceSelector", "objectSelector"):
        validate_structured(match.get(key), errors, f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            _validate_rule(rule, f"{path}.{key}[{index}]", errors)


def _validate_rule(rule: Obj, path: str, errors: Errors) -> None:
    for key in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(key) or []
        if not values:
            errors.required(f"{path}.{key}")
        if "*" in values and len(values) > 1:
            text = "if '*' is present, must not specify other API groups" if key == "apiGroups" else _ALONE[key]
            errors.invalid(f"{path}.{key}", values, text)
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            errors.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            errors.required(f"{path}.apiVersions[{index}]")
    for index, resource in enumerate(rule.get("resources") or ()):
        if not resource:
            errors.required(f"{path}.resources[{index}]")
    if rule.get("scope") not in (None, *_SCOPES):
        errors.not_supported(f"{path}.scope", rule["scope"], _SCOPES)


_ALONE: Final = {
    "operations": "if '*' is present, must not specify other operations",
    "apiVersions": "if '*' is present, must not specify other API versions",
    "resources": "if '*' is present, must not specify other resources",
}


class ValidatingAdmissionPolicyStrategy(CountedStrategy):
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
        if _characters(spec) > MOST_CHARACTERS:
            errors.invalid("spec", "", f"expressions have more than {MOST_CHARACTERS} characters together")
        else:
            compile_policy(spec, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if obj.get("spec") != old.get("spec"):
            self.validate(obj, errors)


def _characters(spec: Obj) -> int:
    keys = ("expression", "messageExpression", "valueExpression")
    lists = (spec.get(key) or () for key in ("matchConditions", "variables", "validations", "auditAnnotations"))
    return sum(len(item.get(key) or "") for items in lists for item in items for key in keys)


def _validate_form(spec: Obj, errors: Errors) -> None:
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        errors.not_supported("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore"))
    if kind := spec.get("paramKind"):
        _validate_param_kind(kind, errors)
    if not (match := spec.get("matchConstraints")):
        errors.required("spec.matchConstraints")
    else:
        if not match.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
        _validate_match(match, "spec.matchConstraints", errors)
    _validate_conditions(spec.get("matchConditions") or (), errors)
    for index, variable in enumerate(spec.get("variables") or ()):
        name = variable.get("name") or ""
        if not name:
            errors.required(f"spec.variables[{index}].name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            errors.invalid(f"spec.variables[{index}].name", name, "name is not a valid CEL identifier")
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


def _validate_conditions(conditions: Sequence[Obj], errors: Errors) -> None:
    if len(conditions) > _MOST_CONDITIONS:
        errors.too_many("spec.matchConditions", len(conditions), _MOST_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name, path = condition.get("name") or "", f"spec.matchConditions[{index}].name"
        if not name:
            errors.required(path)
            continue
        for fault in qualified_name(name):
            errors.invalid(path, name, fault)
        if name in seen:
            errors.duplicate(path, name)
        seen.add(name)


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
    """Bindings of validating policies."""

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
            _validate_match(match, "spec.matchResources", errors)
        _validate_actions(spec.get("validationActions") or [], errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)


def _validate_actions(actions: Sequence[str], errors: Errors) -> None:
    if not actions:
        errors.required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            errors.duplicate(f"spec.validationActions[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
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
