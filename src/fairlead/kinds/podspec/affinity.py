"""Where a pod wants to be: near or away from nodes and other pods."""

from __future__ import annotations

from fairlead.api.fields import Errors, Word
from fairlead.api.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.podspec.label_keys import validate_label_keys
from fairlead.kinds.rules import check

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Obj, path: str, errors: Errors) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        _validate_node_affinity(node, f"{path}.nodeAffinity", errors)
    for kind in ("podAffinity", "podAntiAffinity"):
        if (pod := affinity.get(kind)) is not None:
            _validate_pod_affinity(pod, f"{path}.{kind}", errors)


def _validate_node_affinity(affinity: Obj, path: str, errors: Errors) -> None:
    if (required := affinity.get(REQUIRED)) is not None:
        validate_node_selector(required, f"{path}.{REQUIRED}", errors)
    for i, term in enumerate(affinity.get(PREFERRED) or ()):
        here = f"{path}.{PREFERRED}[{i}]"
        _validate_weight(term, here, errors)
        # A preference that no node can meet does no harm, so its values may be anything.
        _validate_node_term(term.get("preference") or {}, f"{here}.preference", errors, any_value=True)


def validate_node_selector(selector: Obj, path: str, errors: Errors) -> None:
    """A NodeSelector; persistent volumes have one too."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms or ()):
        _validate_node_term(term, f"{path}.nodeSelectorTerms[{i}]", errors, any_value=False)


def _validate_node_term(term: Obj, path: str, errors: Errors, *, any_value: bool) -> None:
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        _validate_node_requirement(requirement, f"{path}.matchExpressions[{i}]", errors, any_value=any_value)
    for i, requirement in enumerate(term.get("matchFields") or ()):
        _validate_field_requirement(requirement, f"{path}.matchFields[{i}]", errors)


def _validate_node_requirement(requirement: Obj, path: str, errors: Errors, *, any_value: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        errors.invalid(f"{path}.operator", Word(operator), "not a valid selector operator")
    check(errors, f"{path}.key", requirement.get("key", ""), qualified_name)
    if not any_value:
        for i, value in enumerate(values):
            check(errors, f"{path}.values[{i}]", value, label_value)


def _validate_field_requirement(requirement: Obj, path: str, errors: Errors) -> None:
    operator, values, key = requirement.get("operator", ""), requirement.get("values") or (), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", Word(operator), "not a valid selector operator")
    elif len(values) != 1:
        errors.required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if key != "metadata.name":
        return errors.invalid(f"{path}.key", key, "not a valid field selector key")
    for i, value in enumerate(values):
        check(errors, f"{path}.values[{i}]", value, dns1123_subdomain)
    return None


def _validate_weight(term: Obj, path: str, errors: Errors) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _validate_pod_affinity(affinity: Obj, path: str, errors: Errors) -> None:
    for i, term in enumerate(affinity.get(REQUIRED) or ()):
        _validate_pod_term(term, f"{path}.{REQUIRED}[{i}]", errors)
    for i, weighted in enumerate(affinity.get(PREFERRED) or ()):
        here = f"{path}.{PREFERRED}[{i}]"
        _validate_weight(weighted, here, errors)
        _validate_pod_term(weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm", errors)


def _validate_pod_term(term: Obj, path: str, errors: Errors) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        validate_structured(term.get(field), errors, f"{path}.{field}")
    for name in term.get("namespaces") or ():
        check(errors, f"{path}.namespace", name, dns1123_label)
    validate_label_keys(term, path, errors)
    topology_key = term.get("topologyKey", "")
    if not topology_key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    check(errors, f"{path}.topologyKey", topology_key, qualified_name)
