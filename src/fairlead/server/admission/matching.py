"""Which requests a policy is about: rules, selectors and exceptions (apiserver/pkg/admission/plugin/policy/matching).

A rule names a group and a version; by `matchPolicy: Equivalent`, the default, any version in which the resource is
served stands for the others. What is shown to a policy is the object as it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import of_structured
from fairlead.server.admission.base import Attributes, Operation, Reader

#: What decides about requests is not decided about by itself.
_EXEMPT_GROUP: Final = "admissionregistration.k8s.io"
_ANY: Final = "*"


def is_exempt(attributes: Attributes) -> bool:
    """Whether no policy is asked: of policies and webhook configurations, so that nobody locks themselves out."""
    return attributes.resource.group == _EXEMPT_GROUP


def matches(match: Mapping[str, Any] | None, attributes: Attributes, reader: Reader) -> bool:
    """Whether a request is one of those that `matchConstraints` or `matchResources` describe."""
    if match is None:
        return True
    rules = match.get("resourceRules") or ()
    if rules and not any_rule(rules, attributes, reader):
        return False
    if any_rule(match.get("excludeResourceRules") or (), attributes, reader):
        return False
    return selects_namespace(match.get("namespaceSelector"), attributes, reader) and selects_object(
        match.get("objectSelector"), attributes
    )


def any_rule(rules: Sequence[Mapping[str, Any]], attributes: Attributes, reader: Reader) -> bool:
    """Whether one of the rules describes the request."""
    return any(_rule_matches(rule, attributes, reader) for rule in rules)


def _rule_matches(rule: Mapping[str, Any], attributes: Attributes, reader: Reader) -> bool:
    row = attributes.resource
    if not _has(rule.get("operations"), attributes.operation):
        return False
    if not _has(rule.get("apiGroups"), row.group) or not _names_resource(rule.get("resources") or (), attributes):
        return False
    if not any(_is_served(version, row, reader) for version in rule.get("apiVersions") or ()):
        return False
    scope = rule.get("scope") or _ANY
    is_namespaced = row.namespaced and row.qualified != "namespaces"
    if scope != _ANY and is_namespaced != (scope == "Namespaced"):
        return False
    names = rule.get("resourceNames") or ()
    return not names or attributes.name in names


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (_ANY in values or value in values)


def _is_served(version: str, row: Resource, reader: Reader) -> bool:
    return version in (_ANY, row.version) or reader.resource_of(row.group, version, row.kind) is not None


def _names_resource(resources: Sequence[str], attributes: Attributes) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*/scale`, `*` (no subresource), `*/*`."""
    plural, subresource = attributes.resource.plural, attributes.subresource
    for text in resources:
        wanted, _, wanted_subresource = text.partition("/")
        if wanted in (_ANY, plural) and wanted_subresource in (subresource, _ANY):
            return True
    return False


def selects_namespace(selector: Obj | None, attributes: Attributes, reader: Reader) -> bool:
    """Whether the namespace of the object, or the object that is a namespace, has such labels. What is in no namespace
    is always selected."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return True
    if attributes.resource.qualified == "namespaces":
        labels = metadata(attributes.obj).get("labels") or {}
    elif not attributes.namespace:
        return True
    else:
        found = reader.find("namespaces", attributes.namespace)
        labels = (metadata(found.obj()).get("labels") or {}) if found is not None else {}
    return of_structured(selector).matches(labels)


def selects_object(selector: Obj | None, attributes: Attributes) -> bool:
    """Whether the object, or what it was, has such labels."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return True
    compiled = of_structured(selector)
    found = (attributes.obj, attributes.old)
    return any(compiled.matches(metadata(obj).get("labels") or {}) for obj in found if obj and "metadata" in obj)


def objects(attributes: Attributes) -> tuple[Obj | None, Obj | None]:
    """The object and the old object, as policies see them."""
    if attributes.operation is Operation.DELETE:
        return None, attributes.obj
    return attributes.obj, attributes.old
