"""LimitRanger: a namespace's LimitRanges give containers their defaults and keep sizes within bounds.

Defaults are filled in on creation and resize, then every bound is checked: of each container, of the pod as a whole,
of each claim (S0-82 to S0-104). The texts are upstream's, two blanks included.
Source: plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api import names
from fairlead.api.encoded import Encoded
from fairlead.api.meta import View
from fairlead.api.objects import Obj, metadata
from fairlead.api.podresources import pod_limits, pod_requests
from fairlead.api.quantity import MAX_INT64, ZERO, Quantity, parse
from fairlead.caches import bounded_cache
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation

LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"
_PODS, _CLAIMS = "pods", "persistentvolumeclaims"

#: Go compares thousandths only where they fit into an int64.
_MAX_MILLI_VALUE = MAX_INT64 // 1000

_Amounts = Mapping[str, Quantity]
#: What is wrong with (type of limit, resource, bound, requests, limits); empty if nothing is.
_Check = Callable[[str, str, Quantity, _Amounts, _Amounts], str]


class _Item(View):
    type: str = ""
    min: dict[str, str] = {}
    max: dict[str, str] = {}
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}
    max_limit_request_ratio: dict[str, str] = {}


class _Spec(View):
    limits: tuple[_Item, ...] | None = ()


class _LimitRange(View):
    spec: _Spec = _Spec()


class _Bound(msgspec.Struct, frozen=True):
    """One line of a LimitRange: no container may ask for more than 2 cores."""

    check: _Check
    resource: str
    value: Quantity


class _Rules(msgspec.Struct, frozen=True):
    """A LimitRange made ready for use."""

    default_limits: dict[str, str]
    default_requests: dict[str, str]
    bounds: tuple[tuple[str, tuple[_Bound, ...]], ...]  # by type of limit, in the order of the items


class LimitRanger(AdmissionPlugin):
    name = "LimitRanger"

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        """The containers of a pod change on creation and on resize alone (S0-96)."""
        if resource == _PODS:
            return (operation, subresource) in ((Operation.CREATE, ""), (Operation.UPDATE, "resize"))
        return resource == _CLAIMS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource.qualified == _PODS:
            for rules in self._rules(attributes):
                fill_in(attributes.obj, rules.default_requests, rules.default_limits)

    async def validate(self, attributes: Attributes) -> None:
        offences_of = _pod_offences if attributes.resource.qualified == _PODS else _claim_offences
        for rules in self._rules(attributes):
            if offences := list(dict.fromkeys(offences_of(rules, attributes.spec))):
                raise attributes.forbidden(offences[0] if len(offences) == 1 else f"[{', '.join(offences)}]")

    def _rules(self, attributes: Attributes) -> Iterator[_Rules]:
        if attributes.old is not None and "deletionTimestamp" in metadata(attributes.old):
            return
        for found in self._reader.each("limitranges", attributes.namespace):
            yield _compiled(found.raw)


@bounded_cache(maxsize=1024, longest=16_384)
def _compiled(raw: bytes) -> _Rules:
    items = Encoded(raw).view(_LimitRange).spec.limits or ()
    defaults: dict[str, str] = {}
    default_requests: dict[str, str] = {}
    for item in items:
        if item.type == "Container":
            defaults |= item.default
            default_requests |= item.default_request
    return _Rules(defaults, default_requests, tuple((item.type, tuple(_bounds(item))) for item in items))


def _bounds(item: _Item) -> Iterator[_Bound]:
    maximum, ratios = _maximum, item.max_limit_request_ratio
    if item.type == "PersistentVolumeClaim":
        maximum, ratios = _maximum_request, {}  # there are no limits that could be in a ratio to anything
    for check, values in ((_minimum, item.min), (maximum, item.max), (_ratio, ratios)):
        for resource, value in values.items():
            yield _Bound(check, resource, parse(value))


def fill_in(pod: Obj, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    """Give each container what it lacks, and note in an annotation what that was."""
    if not requests and not limits:
        return
    spec = pod.get("spec") or {}
    notes: list[str] = []
    length = 0
    for field, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            for kind, defaults in (("request", requests), ("limit", limits)):
                if length > names.ANNOTATIONS_MAX_BYTES:
                    break  # it is refused for that, and thousands of defaults for thousands of containers are millions
                if added := _added(container, f"{kind}s", defaults):
                    notes.append(f"{', '.join(added)} {kind} for {noun} {container.get('name', '')}")
                    length += len(notes[-1])
    if notes:
        annotations: dict[str, Any] = metadata(pod).setdefault("annotations", {})
        annotations[LIMIT_RANGER_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _added(container: Obj, kind: str, defaults: Mapping[str, str]) -> list[str]:
    resources = container.get("resources") or {}
    present = resources.get(kind) or {}
    missing = sorted(defaults.keys() - present.keys())
    if missing:
        container["resources"] = {**resources, kind: present | {name: defaults[name] for name in missing}}
    return missing


def _pod_offences(rules: _Rules, spec: Obj) -> Iterator[str]:
    for kind, bounds in rules.bounds:
        if kind == "Container":
            yield from _container_offences(
                bounds, (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
            )
        elif kind == "Pod":
            yield from _offences(
                kind, bounds, pod_requests(spec, with_overhead=False), pod_limits(spec, with_overhead=False)
            )


def _container_offences(bounds: Sequence[_Bound], containers: Iterable[Obj]) -> Iterator[str]:
    """Each once at least. Whoever does not name a resource breaks its bounds like all others who do not: these are
    looked at for the first of them, so that thousands of bounds and thousands of containers are not multiplied.
    """
    places: dict[str, list[int]] = {}
    for place, bound in enumerate(bounds):
        places.setdefault(bound.resource, []).append(place)
    unnamed: Iterable[int] = range(len(bounds))  # those of resources that all containers so far have named
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        named = {place for resource in requests.keys() | limits.keys() for place in places.get(resource, ())}
        yield from _offences("Container", [bounds[place] for place in sorted(named.union(unnamed))], requests, limits)
        unnamed = named.intersection(unnamed)


def _claim_offences(rules: _Rules, spec: Obj) -> Iterator[str]:
    requests = _amounts((spec.get("resources") or {}).get("requests"))
    for kind, bounds in rules.bounds:
        if kind == "PersistentVolumeClaim":
            yield from _offences(kind, bounds, requests, {})


def _offences(kind: str, bounds: Iterable[_Bound], requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    for bound in bounds:
        if why := bound.check(kind, bound.resource, bound.value, requests, limits):
            yield why


def _minimum(kind: str, resource: str, bound: Quantity, requests: _Amounts, limits: _Amounts) -> str:
    text = f"minimum {resource} usage per {kind} is {bound}"
    request, limit = requests.get(resource), limits.get(resource)
    if request is None:
        return f"{text}.  No request is specified"
    least, amount, allowed = _comparable(bound, request, limit or ZERO)
    if amount < least:
        return f"{text}, but request is {request}"
    return f"{text}, but limit is {limit}" if limit is not None and allowed < least else ""


def _maximum(kind: str, resource: str, bound: Quantity, requests: _Amounts, limits: _Amounts) -> str:
    text = f"maximum {resource} usage per {kind} is {bound}"
    request, limit = requests.get(resource), limits.get(resource)
    if limit is None:
        return f"{text}.  No limit is specified"
    most, amount, allowed = _comparable(bound, request or ZERO, limit)
    if allowed > most:
        return f"{text}, but limit is {limit}"
    return f"{text}, but request is {request}" if request is not None and amount > most else ""


def _maximum_request(kind: str, resource: str, bound: Quantity, requests: _Amounts, limits: _Amounts) -> str:
    """For claims, whose limits mean nothing."""
    text = f"maximum {resource} usage per {kind} is {bound}"
    request = requests.get(resource)
    if request is None:
        return f"{text}.  No request is specified"
    most, amount, _ = _comparable(bound, request, ZERO)
    return f"{text}, but request is {request}" if amount > most else ""


def _ratio(kind: str, resource: str, bound: Quantity, requests: _Amounts, limits: _Amounts) -> str:
    text = f"{resource} max limit to request ratio per {kind} is {bound}"
    _, amount, allowed = _comparable(bound, requests.get(resource, ZERO), limits.get(resource, ZERO))
    if amount == 0:
        return f"{text}, but no request is specified or request is 0"
    if allowed == 0:
        return f"{text}, but no limit is specified or limit is 0"
    ratio = allowed / amount
    is_fine = bound.units <= _MAX_MILLI_VALUE
    exceeds = ratio * 1000 > bound.milli if is_fine else ratio > bound.units
    return f"{text}, but provided ratio is {ratio:f}" if exceeds else ""


def _comparable(bound: Quantity, request: Quantity, limit: Quantity) -> tuple[int, int, int]:
    """The three in thousandths if these fit into an int64, else in whole units."""
    units = bound.units, request.units, limit.units
    return units if max(units) > _MAX_MILLI_VALUE else (bound.milli, request.milli, limit.milli)


def _amounts(texts: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: parse(text) for name, text in (texts or {}).items()}
