"""FlowSchema and PriorityLevelConfiguration: what they may say.

Source: pkg/apis/flowcontrol/validation and pkg/apis/flowcontrol/v1/defaults.go (1.36).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.flow_control import BY_NAMESPACE, BY_USER, EXEMPT, EXEMPT_NAME, LIMITED, QUEUE, REJECT
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.flow_defaults import flow_schemas, mandatory_specs, priority_levels
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import NOT_OF_STATUS, Strategy

_MOST_PRECEDENCE: Final = 10_000
_DEFAULT_PRECEDENCE: Final = 1000
_DEFAULT_SHARES: Final = 30
_DEFAULT_QUEUING: Final = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_MOST_QUEUES: Final = 10_000_000
#: How many bits of a flow's hash choose its queues.
_HASH_BITS: Final = 60
_VERBS: Final = ("get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy")
#: Kind of a subject -> the field that tells which.
_SUBJECTS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


class _FlowControlStrategy(Strategy):
    has_status = True
    kept_by_status = NOT_OF_STATUS
    has_generation = True
    #: By name, the specs that must be just so.
    mandatory: Mapping[str, Obj]

    def validate(self, obj: Obj, errors: Errors) -> None:
        name = metadata(obj).get("name", "")
        self._validate_spec(name, obj["spec"], errors)
        fixed = self.mandatory.get(name)
        if fixed is not None and obj["spec"] != fixed:
            errors.invalid("spec", obj["spec"], f"spec of '{name}' must equal the fixed value")
        _validate_conditions(obj, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_conditions(obj, errors)

    def _validate_spec(self, name: str, spec: Obj, errors: Errors) -> None:
        raise NotImplementedError


class FlowSchemaStrategy(_FlowControlStrategy):
    mandatory = mandatory_specs(flow_schemas())

    def default(self, obj: Obj) -> None:
        if not obj["spec"].get("matchingPrecedence"):
            obj["spec"]["matchingPrecedence"] = _DEFAULT_PRECEDENCE

    def _validate_spec(self, name: str, spec: Obj, errors: Errors) -> None:
        _validate_precedence(name, spec["matchingPrecedence"], errors)
        method = spec.get("distinguisherMethod")
        if method is not None and method["type"] not in (BY_USER, BY_NAMESPACE):
            shown = {"Type": method["type"]}
            errors.not_supported("spec.distinguisherMethod.type", shown, (BY_NAMESPACE, BY_USER))
        level = spec["priorityLevelConfiguration"].get("name", "")
        if level:
            check(errors, "spec.priorityLevelConfiguration.name", level, names.dns1123_subdomain)
        else:
            errors.required("spec.priorityLevelConfiguration.name", "must reference a priority level")
        for number, rule in enumerate(spec.get("rules") or ()):
            _validate_rule(rule, f"spec.rules[{number}]", errors)


class PriorityLevelStrategy(_FlowControlStrategy):
    mandatory = mandatory_specs(priority_levels())

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        if (exempt := spec.get("exempt")) is not None:
            _fill(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})
        if (limited := spec.get("limited")) is not None:
            _fill(limited, {"nominalConcurrencyShares": _DEFAULT_SHARES, "lendablePercent": 0})
            if (queuing := (limited.get("limitResponse") or {}).get("queuing")) is not None:
                queuing |= {field: queuing.get(field) or value for field, value in _DEFAULT_QUEUING.items()}

    def _validate_spec(self, name: str, spec: Obj, errors: Errors) -> None:
        type_, limited, exempt = spec["type"], spec.get("limited"), spec.get("exempt")
        if (name == EXEMPT_NAME) != (type_ == EXEMPT):
            errors.invalid("spec.type", type_, "type must be 'Exempt' if and only if name is 'exempt'")
        if type_ == EXEMPT:
            if limited is not None:
                errors.forbidden("spec.limited", "must be nil if the type is not Limited")
            if exempt is not None:
                _validate_shares(exempt, "spec.exempt", errors)
        elif type_ == LIMITED:
            if exempt is not None:
                errors.forbidden("spec.exempt", "must be nil if the type is Limited")
            if limited is None:
                errors.required("spec.limited", "must not be empty when type is Limited")
            else:
                _validate_limited(limited, "spec.limited", errors)
        else:
            errors.not_supported("spec.type", type_, (EXEMPT, LIMITED))


def _fill(obj: Obj, defaults: Mapping[str, int]) -> None:
    """Set what is not set; zero is a value."""
    obj |= {field: value for field, value in defaults.items() if obj.get(field) is None}


def _validate_precedence(name: str, precedence: int, errors: Errors) -> None:
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.invalid(path, precedence, "must be a positive value")
    if precedence > _MOST_PRECEDENCE:
        errors.invalid(path, precedence, f"must not be greater than {_MOST_PRECEDENCE}")
    if precedence == 1 and name != EXEMPT_NAME:
        errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")


def _validate_rule(rule: Obj, path: str, errors: Errors) -> None:
    subjects = rule.get("subjects") or ()
    if not subjects:
        errors.required(f"{path}.subjects", "subjects must contain at least one value")
    for number, subject in enumerate(subjects):
        _validate_subject(subject, f"{path}.subjects[{number}]", errors)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for number, resources in enumerate(rule.get("resourceRules") or ()):
        _validate_resource_rule(resources, f"{path}.resourceRules[{number}]", errors)
    for number, paths in enumerate(rule.get("nonResourceRules") or ()):
        at = f"{path}.nonResourceRules[{number}]"
        _validate_verbs(paths, at, errors)
        _validate_urls(paths.get("nonResourceURLs") or (), f"{at}.nonResourceURLs", errors)


def _validate_subject(subject: Obj, path: str, errors: Errors) -> None:
    kind = subject["kind"]
    if kind not in _SUBJECTS:
        errors.not_supported(f"{path}.kind", kind, _SUBJECTS)
        return
    own = _SUBJECTS[kind]
    named = subject.get(own)
    if named is None:
        errors.required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    elif not named["name"]:
        errors.required(f"{path}.{own}.name")
    elif own == "serviceAccount" and named["name"] != "*":
        check(errors, f"{path}.{own}.name", named["name"], names.dns1123_subdomain)
    if named is not None and own == "serviceAccount":
        if named["namespace"]:
            check(errors, f"{path}.{own}.namespace", named["namespace"], names.dns1123_label)
        else:
            errors.required(f"{path}.{own}.namespace", "must specify namespace for service account")
    for other, field in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            errors.forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'")


def _validate_resource_rule(rule: Obj, path: str, errors: Errors) -> None:
    _validate_verbs(rule, path, errors)
    for field, what, one in (("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")):
        values = rule.get(field) or ()
        if not values:
            errors.required(f"{path}.{field}", f"resource rules must supply at least one {one}")
        elif len(values) > 1:
            _validate_alone(values, f"{path}.{field}", what, errors)
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.required(f"{path}.namespaces", text)
    elif not _validate_alone(namespaces, f"{path}.namespaces", "namespaces", errors):
        for number, namespace in enumerate(namespaces):
            for problem in names.dns1123_label(namespace):
                text = f"each member of this list must be '*' or a DNS-1123 label; {problem}"
                errors.invalid(f"{path}.namespaces[{number}]", namespace, text)


def _validate_verbs(rule: Obj, path: str, errors: Errors) -> None:
    verbs = rule.get("verbs") or ()
    if not verbs:
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    elif not _validate_alone(verbs, f"{path}.verbs", "verbs", errors) and not set(verbs).issubset(_VERBS):
        errors.not_supported(f"{path}.verbs", verbs, _VERBS)


def _validate_alone(values: Sequence[str], path: str, what: str, errors: Errors) -> bool:
    """Whether there is a wildcard, which must stand alone."""
    if "*" not in values:
        return False
    if len(values) > 1:
        errors.invalid(path, values, f"if '*' is present, must not specify other {what}")
    return True


def _validate_urls(urls: Sequence[str], path: str, errors: Errors) -> None:
    if not urls:
        errors.required(path, "nonResourceURLs must contain at least one value")
    elif not _validate_alone(urls, path, "non-resource URLs", errors):
        for number, url in enumerate(urls):
            if problem := _problem_of(url):
                errors.invalid(f"{path}[{number}]", url, problem)


def _problem_of(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


def _validate_shares(level: Obj, path: str, errors: Errors) -> None:
    if level["nominalConcurrencyShares"] < 0:
        text = "must be a non-negative integer"
        errors.invalid(f"{path}.nominalConcurrencyShares", level["nominalConcurrencyShares"], text)
    if not 0 <= level["lendablePercent"] <= 100:
        errors.invalid(f"{path}.lendablePercent", level["lendablePercent"], "must be between 0 and 100, inclusive")


def _validate_limited(limited: Obj, path: str, errors: Errors) -> None:
    _validate_shares(limited, path, errors)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.invalid(f"{path}.borrowingLimitPercent", borrowing, text)
    response, at = limited.get("limitResponse") or {}, f"{path}.limitResponse"
    type_, queuing = response.get("type", ""), response.get("queuing")
    if type_ == REJECT:
        if queuing is not None:
            errors.forbidden(f"{at}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif type_ != QUEUE:
        errors.not_supported(f"{at}.type", type_, (QUEUE, REJECT))
    elif queuing is None:
        errors.required(f"{at}.queuing", "must not be empty if limited.limitResponse.type is Limited")
    else:
        _validate_queuing(queuing, f"{at}.queuing", errors)


def _validate_queuing(queuing: Obj, path: str, errors: Errors) -> None:
    queues, hand, length = queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"]
    if length <= 0:
        errors.invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        errors.invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        errors.invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        errors.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        errors.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _bits(queues, hand) > _HASH_BITS:
        what = f"required entropy bits of deckSize {queues} and handSize {hand}"
        errors.invalid(f"{path}.handSize", hand, f"{what} should not be greater than {_HASH_BITS}")


def _bits(queues: int, hand: int) -> int:
    """How many bits it takes to deal such a hand; whoever asks for more than there are need not hear how many."""
    total = 0.0
    for dealt in range(min(hand, _MOST_HAND)):
        total += math.log2(queues - dealt)
    return math.ceil(total)


#: No hand of so many queues can be dealt from a hash: each takes a bit at least, but for the last ones.
_MOST_HAND: Final = 1000


def _validate_conditions(obj: Obj, errors: Errors) -> None:
    seen: set[Any] = set()
    for number, condition in enumerate(_conditions(obj)):
        path, type_ = f"status.conditions[{number}].type", condition.get("type", "")
        if type_ in seen:
            errors.duplicate(path, type_)
        seen.add(type_)
        if not type_:
            errors.required(path, "must not be empty")


def _conditions(obj: Obj) -> Iterable[Obj]:
    found: Iterable[Obj] = (obj.get("status") or {}).get("conditions") or ()
    return found
