"""Which requests a policy or a webhook is about: rules, selectors and exceptions.

A rule names a group and a version; by `matchPolicy: Equivalent`, the default, any version in which the resource is
served stands for the others, and who is asked is shown the object in the version that the rule names. Sources:
apiserver/pkg/admission/plugin/policy/matching and plugin/webhook/{generic,predicates} (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import of_structured
from fairlead.server.admission.base import Attributes, Reader

#: What decides about requests is not decided about by itself.
_EXEMPT_GROUP: Final = "admissionregistration.k8s.io"
_ANY: Final = "*"


def is_exempt(attributes: Attributes) -> bool:
    """Whether no policy is asked: of policies and webhook configurations, so that nobody locks themselves out."""
    return attributes.resource.group == _EXEMPT_GROUP


def matched(match: Mapping[str, Any] | None, attributes: Attributes, reader: Reader) -> Resource | None:
    """The version in which a request is one of those that `matchConstraints` or `matchResources` describe."""
    if match is None:
        return attributes.requested
    rules, policy = match.get("resourceRules") or (), match.get("matchPolicy")
    row = named_by(rules, policy, attributes) if rules else attributes.requested
    if row is None or named_by(match.get("excludeResourceRules") or (), policy, attributes):
        return None
    is_selected = selects_namespace(match.get("namespaceSelector"), attributes, reader) and selects_object(
        match.get("objectSelector"), attributes
    )
    return row if is_selected else None


def named_by(rules: Sequence[Mapping[str, Any]], match_policy: str | None, attributes: Attributes) -> Resource | None:
    """The version that one of the rules names: that of the request, else an equal one; None if they name none."""
    requested = attributes.requested
    if any(_rule_matches(rule, attributes, requested) for rule in rules):
        return requested
    if match_policy == "Exact" or attributes.view is None:
        return None
    others = [row for row in attributes.view.rows() if row is not requested]
    return next((row for rule in rules for row in others if _rule_matches(rule, attributes, row)), None)


def _rule_matches(rule: Mapping[str, Any], attributes: Attributes, row: Resource) -> bool:
    if not _has(rule.get("operations"), attributes.operation):
        return False
    if not _has(rule.get("apiGroups"), row.group) or not _has(rule.get("apiVersions"), row.version):
        return False
    if not _names_resource(rule.get("resources") or (), row.plural, attributes.subresource):
        return False
    scope = rule.get("scope") or _ANY
    is_namespaced = row.namespaced and row.qualified != "namespaces"
    if scope != _ANY and is_namespaced != (scope == "Namespaced"):
        return False
    names = rule.get("resourceNames") or ()
    return not names or attributes.name in names


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (_ANY in values or value in values)


def _names_resource(resources: Sequence[str], plural: str, subresource: str) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*/scale`, `*` (no subresource), `*/*`."""
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
