"""Reviews of who may do what: questions that are asked by creating an object, and answered in its status.

Sources: pkg/registry/authorization, pkg/apis/authorization/validation (1.36).
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api import names
from fairlead.api.encoded import Encoded
from fairlead.api.errors import BadRequest
from fairlead.api.field_selectors import escape
from fairlead.api.fields import Errors
from fairlead.api.meta import View
from fairlead.api.objects import Obj, metadata
from fairlead.api.roles import PolicyRule
from fairlead.api.selectors import of_structured
from fairlead.api.users import User
from fairlead.kinds.rules import check
from fairlead.runtime.offload import offload
from fairlead.server.access import AccessRequest, Decision, Verdict
from fairlead.server.context import Result
from fairlead.server.storage import metadata_rules
from fairlead.server.subresources.action import ActionCall, answered

_GROUP: Final = "authorization.k8s.io"
_SELF, _LOCAL = "SelfSubjectAccessReview", "LocalSubjectAccessReview"
_EITHER: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

_TERMS: Final = {"In": "=", "NotIn": "!="}
_SETS: Final = ("In", "NotIn")
_EXISTENCE: Final = ("Exists", "DoesNotExist")
#: To tell so many rules takes long.
_MANY_RULES: Final = 500


class _Requirement(View):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class _Selector(View):
    raw_selector: str = ""
    requirements: tuple[_Requirement, ...] | None = None


class _Resource(View):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: _Selector | None = None
    label_selector: _Selector | None = None


class _Path(View):
    path: str = ""
    verb: str = ""


class _Question(View):
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str = ""
    groups: tuple[str, ...] | None = None
    uid: str = ""
    extra: dict[str, tuple[str, ...]] | None = None


async def access_review(call: ActionCall) -> Result[Encoded]:
    """May somebody do something? (SubjectAccessReview and its kin)"""
    kind = call.request.version.resource.kind

    def read() -> tuple[list[str], AccessRequest]:
        warnings = call.normalise_body()
        if kind == _LOCAL:
            metadata_rules.ensure_namespace(call.served, metadata(call.body), call.namespace)
        question = msgspec.convert(call.body.get("spec") or {}, _Question)
        _validate(question, call.body.get("metadata") or {}, kind, call.namespace)
        return warnings, _request(call.request.context.user if kind == _SELF else _user_of(question), question)

    warnings, request = await offload(read, is_long=call.request.is_long())
    verdict = await call.backend.authorizer.authorize(request)
    return answered(call, _status(verdict), warnings)


async def rules_review(call: ActionCall) -> Result[Encoded]:
    """What may I do? (SelfSubjectRulesReview)"""
    warnings = call.normalise_body()
    namespace = (call.body.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise BadRequest("no namespace on request")
    found = call.backend.authorizer.rules_for(call.request.context.user, namespace)

    def answer() -> Result[Encoded]:
        status: Obj = {
            "resourceRules": [_resource_rule(rule) for rule in found.rules if rule.resources],
            "nonResourceRules": [_path_rule(rule) for rule in found.rules if rule.urls],
            "incomplete": not found.is_complete,
        }
        return answered(call, status | ({"evaluationError": found.error} if found.error else {}), warnings)

    return await offload(answer, is_long=len(found.rules) > _MANY_RULES)


def _validate(question: _Question, meta: Obj, kind: str, namespace: str) -> None:
    errors = Errors()
    resource, path = question.resource_attributes, question.non_resource_attributes
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.invalid("spec.nonResourceAttributes", msgspec.to_builtins(path), text)
    elif resource is None and path is None:
        errors.invalid("spec.resourceAttributes", None, _EITHER)
    if kind != _SELF and not question.user and not question.groups:
        errors.invalid("spec.user", "", "at least one of user or group must be specified")
    if resource is not None:
        _validate_selectors(resource, "spec.resourceAttributes", errors)
    given = {key: value for key, value in meta.items() if value}
    if given.keys() - {"managedFields"} - ({"namespace"} if kind == _LOCAL else set()):
        errors.invalid("metadata", given, "must be empty except for namespace" if kind == _LOCAL else "must be empty")
    if kind == _LOCAL:
        if path is not None:
            text = "disallowed on this kind of request"
            errors.invalid("spec.nonResourceAttributes", msgspec.to_builtins(path), text)
        elif resource is not None and resource.namespace != namespace:
            errors.invalid("spec.resourceAttributes.namespace", resource.namespace, "must match metadata.namespace")
    errors.raise_invalid("", "", _GROUP)


def _validate_selectors(resource: _Resource, path: str, errors: Errors) -> None:
    for field, selector in (("fieldSelector", resource.field_selector), ("labelSelector", resource.label_selector)):
        if selector is None:
            continue
        where, requirements = f"{path}.{field}", selector.requirements or ()
        if selector.raw_selector and requirements:
            text = "may not specified at the same time as requirements"
            errors.invalid(f"{where}.rawSelector", selector.raw_selector, text)
        elif not selector.raw_selector and not requirements:
            text = f"when {where} is specified, requirements or rawSelector is required"
            errors.required(f"{where}.requirements", text)
        for index, requirement in enumerate(requirements):
            _validate_requirement(requirement, f"{where}.requirements[{index}]", field == "labelSelector", errors)


def _validate_requirement(requirement: _Requirement, path: str, is_of_labels: bool, errors: Errors) -> None:
    """Operators that this server does not know are let through: newer clients may ask about them."""
    if not is_of_labels and not requirement.key:
        errors.required(f"{path}.key", "must be specified")
    if requirement.operator in _SETS and not requirement.values:
        errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if requirement.operator in _EXISTENCE and requirement.values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.forbidden(f"{path}.values", text)
    if is_of_labels:
        check(errors, f"{path}.key", requirement.key, names.qualified_name)
        for index, value in enumerate(requirement.values or ()):
            check(errors, f"{path}.values[{index}]", value, names.label_value)


def _fields_text(selector: _Selector | None) -> str:
    """A field is one value, or another one; requirements that say more are left out, and more is asked for."""
    if selector is None:
        return ""
    terms = [
        f"{requirement.key}{_TERMS[requirement.operator]}{escape(requirement.values[0])}"
        for requirement in selector.requirements or ()
        if requirement.operator in _TERMS and requirement.values and len(requirement.values) == 1
    ]
    return selector.raw_selector or ",".join(terms)


def _labels_text(selector: _Selector | None) -> str:
    if selector is None:
        return ""
    known = [each for each in selector.requirements or () if each.operator in (*_SETS, *_EXISTENCE)]
    expressions = [{"key": each.key, "operator": each.operator, "values": list(each.values or ())} for each in known]
    return selector.raw_selector or str(of_structured({"matchExpressions": expressions}))


def _user_of(question: _Question) -> User:
    extra = {key.lower(): values for key, values in (question.extra or {}).items()}
    return User(question.user, question.groups or (), question.uid, tuple(sorted(extra.items())))


def _request(user: User, question: _Question) -> AccessRequest:
    if (path := question.non_resource_attributes) is not None:
        return AccessRequest(user, path.verb, path=path.path)
    asked = question.resource_attributes
    assert asked is not None
    return AccessRequest(
        user,
        asked.verb,
        asked.group,
        asked.version,
        asked.resource,
        asked.subresource,
        asked.namespace,
        asked.name,
        "",
        _fields_text(asked.field_selector),
        _labels_text(asked.label_selector),
    )


def _status(verdict: Verdict) -> Obj:
    status: Obj = {"allowed": verdict.is_allowed}
    if verdict.decision is Decision.DENY:
        status["denied"] = True
    if verdict.reason:
        status["reason"] = verdict.reason
    if verdict.error:
        status["evaluationError"] = verdict.error
    return status


def _resource_rule(rule: PolicyRule) -> Obj:
    shown: Obj = {"verbs": list(rule.verbs), "apiGroups": list(rule.api_groups or ())}
    shown["resources"] = list(rule.resources or ())
    return shown | ({"resourceNames": list(rule.resource_names)} if rule.resource_names else {})


def _path_rule(rule: PolicyRule) -> Obj:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls or ())}
