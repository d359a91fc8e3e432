"""What containers and pods may ask for, and how much.

Reference: validateResourceRequirements, validatePodResources and what they call in pkg/apis/core/validation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label
from fairlead.api.objects import Obj
from fairlead.api.podresources import (
    HUGEPAGES,
    aggregate_container_limits,
    aggregate_container_requests,
    is_hugepages,
    is_overcommit_allowed,
    is_pod_level_resource,
)
from fairlead.api.quantity import QuantityError, parse
from fairlead.kinds.resource_names import (
    validate_amount,
    validate_container_resource_name,
    validate_resource_name,
)
from fairlead.kinds.rules import check

NameRule = Callable[[str, str, Errors], None]

_COMPUTE = ("cpu", "memory")
_POD_LEVEL_NAMES = ("cpu", HUGEPAGES, "memory")


def validate_container_resources(resources: Obj, claim_names: frozenset[str], path: str, errors: Errors) -> None:
    _validate_requirements(resources, validate_container_resource_name, path, errors)
    if claims := resources.get("claims"):
        _validate_claims(claims, claim_names, f"{path}.claims", errors)


def validate_overhead(overhead: Obj, path: str, errors: Errors) -> None:
    """Overhead is checked as if it were somebody's limits."""
    _validate_requirements({"limits": overhead}, validate_container_resource_name, path, errors)


def validate_pod_resources(spec: Obj, claim_names: frozenset[str], path: str, errors: Errors) -> None:
    """`spec.resources`: for the pod as a whole (KEP-2837)."""
    resources = spec.get("resources")
    if resources is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(path, "may not be set for a windows pod")
        return
    if claims := resources.get("claims"):
        errors.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    _validate_requirements(resources, _validate_pod_level_name, path, errors)
    if claims:
        _validate_claims(claims, claim_names, f"{path}.claims", errors)
    _validate_covers_containers(spec, path, errors)


def _validate_pod_level_name(name: str, path: str, errors: Errors) -> None:
    before = errors.added
    validate_resource_name(name, path, errors)
    if errors.added == before and not is_pod_level_resource(name):
        errors.not_supported(path, name, _POD_LEVEL_NAMES)


def _validate_requirements(resources: Obj, name_rule: NameRule, path: str, errors: Errors) -> None:
    limits, requests = resources.get("limits"), resources.get("requests")
    if limits:
        for name, amount in limits.items():
            _validate_entry(name, amount, name_rule, f"{path}.limits[{name}]", errors)
    if requests:
        for name, amount in requests.items():
            _validate_entry(name, amount, name_rule, f"{path}.requests[{name}]", errors)
            _validate_against_limit(name, amount, (limits or {}).get(name), path, errors)
    named = {*(limits or ()), *(requests or ())}
    if any(map(is_hugepages, named)) and named.isdisjoint(_COMPUTE):
        errors.forbidden(path, "HugePages require cpu or memory")


def _validate_entry(name: str, amount: str, name_rule: NameRule, path: str, errors: Errors) -> None:
    if name in _COMPUTE and parse(amount).nanos >= 0:
        return  # by far the most common; nothing below can object
    name_rule(name, path, errors)
    validate_amount(name, amount, path, errors)
    if is_hugepages(name) and not _is_whole_pages(name, amount):
        errors.invalid(path, amount, f"{amount} is not positive integer multiple of {name}")


def _is_whole_pages(name: str, amount: str) -> bool:
    try:
        page = parse(name.removeprefix(HUGEPAGES))
    except QuantityError:
        return False
    return page.nanos > 0 and page.milli % 1000 == 0 and parse(amount).units % page.units == 0


def _validate_against_limit(name: str, amount: str, limit: str | None, path: str, errors: Errors) -> None:
    if limit == amount:
        return
    if limit is None:
        if not is_overcommit_allowed(name):
            errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif parse(amount) != parse(limit) and not is_overcommit_allowed(name):
        errors.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif parse(amount) > parse(limit):
        errors.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _validate_claims(claims: Iterable[Obj], known: frozenset[str], path: str, errors: Errors) -> None:
    """Claims refer to `spec.resourceClaims`, each as a whole or request by request but not both."""
    seen: set[str] = set()
    requests: Counter[str] = Counter()
    for i, claim in enumerate(claims):
        here = f"{path}[{i}]"
        name = claim.get("name", "")
        if not name:
            errors.required(here)
            continue
        _validate_claim_is_new(name, claim.get("request", ""), seen, requests, here, errors)
        if name not in known:
            choice = _choice(known) if errors.has_room else ""
            errors.not_found(here, name, f"must be one of the names in pod.spec.resourceClaims{choice}")


def _choice(known: frozenset[str]) -> str:
    return f": {', '.join(sorted(known))}" if known else " which is empty"


def _validate_claim_is_new(
    name: str, request: str, seen: set[str], requests: Counter[str], path: str, errors: Errors
) -> None:
    """`seen` are claims and requests so far, `requests` counts those of each claim."""
    if name in seen:
        return errors.duplicate(path, name)
    key = f"{name}/{request}" if request else name
    if request:
        check(errors, f"{path}.request", request, dns1123_label)
    if key in seen:
        errors.duplicate(path, key)
    elif request:
        requests[name] += 1
    else:
        for _ in range(requests[name]):
            errors.duplicate(path, name)
    seen.add(key)
    return None


def _validate_covers_containers(spec: Obj, path: str, errors: Errors) -> None:
    """The pod's requests (and huge pages) cover those of its containers; no container's limit exceeds the pod's."""
    resources = spec["resources"]
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, needed in aggregate_container_requests(spec).items():
        if (amount := requests.get(name)) is not None and needed > parse(amount):
            text = f"must be greater than or equal to aggregate container requests of {needed}"
            errors.invalid(f"{path}.requests[{name}]", amount, text)
    for name, needed in aggregate_container_limits(spec).items() if limits else ():
        if is_hugepages(name) and (amount := limits.get(name)) is not None and needed > parse(amount):
            text = f"must be greater than or equal to aggregate container limits of {needed}"
            errors.invalid(f"{path}.limits[{name}]", amount, text)
    for i, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse(limit) > parse(limits[name]):
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(f"{path}.containers[{i}][{name}].limits", limit, text)
