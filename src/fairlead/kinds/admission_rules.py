"""Rules that say which requests a policy or a webhook is about: what they may say, and what they leave open.

Source: pkg/apis/admissionregistration/{v1,validation} (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.rules import check

SELECTORS: Final = ("namespaceSelector", "objectSelector")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_ALONE: Final = {
    "operations": "if '*' is present, must not specify other operations",
    "apiGroups": "if '*' is present, must not specify other API groups",
    "apiVersions": "if '*' is present, must not specify other API versions",
}


def default_selection(match: Obj, *rules: str) -> None:
    """Fill in what selectors and the lists of rules with these names leave open."""
    match.setdefault("matchPolicy", "Equivalent")
    for key in SELECTORS:
        match.setdefault(key, {})
    for key in rules:
        for rule in match.get(key) or ():
            rule.setdefault("scope", "*")


def default_match(match: Obj | None) -> None:
    """Fill in what a policy's or a binding's match leaves open."""
    if match is not None:
        default_selection(match, "resourceRules", "excludeResourceRules")


def validate_match(match: Obj, path: str, errors: Errors) -> None:
    """What a policy or a binding matches."""
    validate_match_policy(match, path, errors)
    for key in SELECTORS:
        validate_structured(match.get(key), errors, f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            _validate_names(rule.get("resourceNames") or (), f"{path}.{key}[{index}].resourceNames", errors)
            validate_rule(rule, f"{path}.{key}[{index}]", errors)


def _validate_names(resources: Sequence[str], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for index, name in enumerate(resources):
        check(errors, f"{path}[{index}]", name, names.path_segment_name)
        if name in seen:
            errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def validate_match_policy(match: Obj, path: str, errors: Errors) -> None:
    if match.get("matchPolicy") not in (None, "Equivalent", "Exact"):
        errors.not_supported(f"{path}.matchPolicy", match["matchPolicy"], ("Equivalent", "Exact"))


def validate_failure_policy(spec: Obj, path: str, errors: Errors) -> None:
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        errors.not_supported(f"{path}.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore"))


def validate_rule(rule: Obj, path: str, errors: Errors) -> None:
    """Operations, groups, versions, resources and the scope of one rule."""
    _validate_words(rule, "operations", path, errors)
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            errors.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    _validate_words(rule, "apiGroups", path, errors)
    _validate_words(rule, "apiVersions", path, errors)
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            errors.required(f"{path}.apiVersions[{index}]")
    _validate_resources(rule.get("resources") or [], f"{path}.resources", errors)
    if rule.get("scope") not in (None, *_SCOPES):
        errors.not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _validate_words(rule: Obj, key: str, path: str, errors: Errors) -> None:
    values = rule.get(key) or []
    if not values:
        errors.required(f"{path}.{key}")
    if "*" in values and len(values) > 1:
        errors.invalid(f"{path}.{key}", values, _ALONE[key])


def _validate_resources(resources: Sequence[str], path: str, errors: Errors) -> None:
    """`pods`, `pods/status`, `pods/*`, `*/scale`, `*`, `*/*`: none may be in another one before it."""
    if not resources:
        errors.required(path)
    whole: set[str] = set()  # x/*
    everywhere: set[str] = set()  # */x
    is_bare = False  # whether the last resource without a subresource is a name
    for index, text in enumerate(resources):
        resource, slash, subresource = text.partition("/")
        if not text:
            errors.required(f"{path}[{index}]")
        elif not slash:
            is_bare = text != "*"
        else:
            if resource in whole:
                errors.invalid(f"{path}[{index}]", text, f"if '{resource}/*' is present, must not specify {text}")
            if subresource in everywhere:
                errors.invalid(f"{path}[{index}]", text, f"if '*/{subresource}' is present, must not specify {text}")
            if subresource == "*":
                whole.add(resource)
            if resource == "*":
                everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and is_bare:
        errors.invalid(path, resources, "if '*' is present, must not specify other resources without subresources")
