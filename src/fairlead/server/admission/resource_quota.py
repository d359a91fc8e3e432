"""ResourceQuota: refuses objects beyond the quotas of their namespace, and charges those that are stored.

It runs last, on the final object: everything is checked first, then each quota's `status.used` is raised, with the
check repeated on the very version that is written, so that two requests cannot both take the last place. Charges are
given back if the write fails; deletions are left to the quota controller, which recounts (S0-79).
Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from fairlead.api import quota
from fairlead.api.devices import DeviceClass
from fairlead.api.errors import Unknown
from fairlead.api.objects import Obj, metadata
from fairlead.api.podresources import Amounts, parsed
from fairlead.api.quantity import ZERO, parse
from fairlead.api.quota_scopes import CLAIMS, DEVICE_CLAIMS, PODS, SERVICES, ResourceQuota, in_scope, met
from fairlead.runtime import clock
from fairlead.runtime.turns import in_turns
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.admission.quota_configuration import LimitedResource, names_without_quota, scopes_text

QUOTAS = "resourcequotas"
_CLASSES = "deviceclasses.resource.k8s.io"

_CREATE, _UPDATE = (Operation.CREATE, ""), (Operation.UPDATE, "")

#: The writes that can change what an object counts for; of other kinds only the number counts.
_CHARGED: Mapping[str, frozenset[tuple[Operation, str]]] = {
    PODS: frozenset({_CREATE, _UPDATE, (Operation.UPDATE, "resize")}),
    SERVICES: frozenset({_CREATE, _UPDATE}),
    CLAIMS: frozenset({_CREATE, _UPDATE, (Operation.UPDATE, "status")}),
    DEVICE_CLAIMS: frozenset({_CREATE, _UPDATE}),
}
_COUNTED = frozenset({_CREATE})

#: How much to charge to which quota.
_Charges = list[tuple[str, Amounts]]


class ResourceQuotaAdmission(AdmissionPlugin):
    name = "ResourceQuota"

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._limited = dependencies.configuration.limited_resources

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        return resource not in quota.IGNORED and (operation, subresource) in _CHARGED.get(resource, _COUNTED)

    async def validate(self, attributes: Attributes) -> None:
        if not attributes.namespace or not attributes.resource.namespaced or not _may_count_differently(attributes):
            return
        quotas = [found.kept_view(ResourceQuota) for found in self._reader.each(QUOTAS, attributes.namespace)]
        facts = quota.DeviceFacts(self._extended_name, partial(self._pod, attributes.namespace))
        charges = charges_for(quotas, attributes, clock.now(), self._limited, facts) if quotas or self._limited else []
        if attributes.dry_run:
            return
        async for name, amounts in in_turns(charges):
            await self._change(attributes.namespace, name, partial(_charged, amounts, attributes))
            attributes.on_failure.append(partial(self._change, attributes.namespace, name, partial(_refunded, amounts)))

    def _extended_name(self, device_class: str) -> str:
        found = self._reader.find(_CLASSES, device_class)
        return (found.kept_view(DeviceClass).spec.extended_resource_name or "") if found is not None else ""

    def _pod(self, namespace: str, name: str) -> Obj | None:
        found = self._reader.find(PODS, name, namespace)
        return found.obj() if found is not None else None

    async def _change(self, namespace: str, name: str, change: Callable[[Obj], Obj | None]) -> None:
        await self._writer.guaranteed_update(QUOTAS, name, namespace, change)


def charges_for(
    quotas: Sequence[ResourceQuota],
    attributes: Attributes,
    now: float,
    limited: Sequence[LimitedResource] = (),
    facts: quota.DeviceFacts | None = None,
) -> _Charges:
    """What this request adds to which quota; refuses it if it exceeds one, or needs one that is not there."""
    concerned = _concerned(quotas, attributes)
    if limited:
        _check_covered(quotas, concerned, attributes, now, limited, facts)
    if not concerned:
        return []
    charges = []
    for resource_quota, growth in _growth(concerned, attributes, now, facts):
        status = resource_quota.status
        if requested := quota.limited(growth, status.hard):
            _check_room(resource_quota.metadata.name, requested, status.hard, status.used, attributes)
            charges.append((resource_quota.metadata.name, requested))
    return charges


def _concerned(quotas: Iterable[ResourceQuota], attributes: Attributes) -> list[ResourceQuota]:
    """The quotas that count this object. Refuses it if one has no usage yet, or if the object lacks a counted field."""
    resource = attributes.resource.qualified
    concerned = []
    for resource_quota in quotas:
        names = quota.counted(resource, resource_quota.status.hard)
        if not names or not in_scope(resource_quota.spec.selectors, resource, attributes.obj):
            continue
        name = resource_quota.metadata.name
        if resource == PODS and (why := quota.unspecified(attributes.obj, names)):
            raise attributes.forbidden(f"failed quota: {name}: {why}")
        if not resource_quota.status.used.keys() >= set(names):
            raise attributes.forbidden(f"status unknown for quota: {name}, resources: {','.join(names)}")
        concerned.append(resource_quota)
    return concerned


def _growth(
    concerned: Iterable[ResourceQuota], attributes: Attributes, now: float, facts: quota.DeviceFacts | None
) -> Iterable[tuple[ResourceQuota, Amounts]]:
    """What to charge to each quota: the difference of an update, or everything if the old object was out of scope."""
    resource, old = attributes.resource.qualified, attributes.old
    new_usage = quota.usage(resource, attributes.obj, now, facts)
    if negative := sorted(name for name, amount in new_usage.items() if amount < ZERO):
        raise attributes.forbidden(f"quota usage is negative for resource(s): {','.join(negative)}")
    everything = quota.increase(new_usage, {})
    if attributes.operation is Operation.CREATE or old is None or not metadata(old).get("resourceVersion"):
        return [(resource_quota, everything) for resource_quota in concerned]
    difference = quota.increase(new_usage, quota.usage(resource, old, now, facts))
    return [
        (resource_quota, difference if in_scope(resource_quota.spec.selectors, resource, old) else everything)
        for resource_quota in concerned
    ]


def _check_covered(
    quotas: Iterable[ResourceQuota],
    concerned: Iterable[ResourceQuota],
    attributes: Attributes,
    now: float,
    limited: Iterable[LimitedResource],
    facts: quota.DeviceFacts | None,
) -> None:
    """Refuse the request if it adds to something that takes a quota, and has none."""
    resource, obj = attributes.resource.qualified, attributes.obj
    usage = quota.usage(resource, obj, now, facts)
    if not _adds(usage, attributes, now, facts):
        return
    covered = {name for found in concerned for name in quota.counted(resource, found.status.hard)}
    if missing := names_without_quota(limited, resource, usage, covered):
        raise attributes.forbidden(f"insufficient quota to consume: {','.join(missing)}")
    covered_scopes = {scope.scope_name for found in quotas for scope in met(found.spec.selectors, resource, obj)}
    scopes = (scope for each in limited for scope in met(each.scopes, resource, obj))
    if uncovered := [scope for scope in scopes if scope.scope_name not in covered_scopes]:
        raise Unknown(f"insufficient quota to match these scopes: {scopes_text(uncovered)}")


def _adds(usage: Amounts, attributes: Attributes, now: float, facts: quota.DeviceFacts | None) -> bool:
    """Whether the request uses more of anything than before it."""
    old = attributes.old
    if attributes.operation is Operation.CREATE or old is None or not metadata(old).get("resourceVersion"):
        before: Amounts = {}
    else:
        before = quota.usage(attributes.resource.qualified, old, now, facts)
    return any(amount > ZERO for amount in quota.increase(usage, before).values())


def _check_room(
    name: str, requested: Amounts, hard: Mapping[str, str], used: Mapping[str, str], attributes: Attributes
) -> None:
    """Refuse what is beyond the quota, all of which limits what is requested; a status says what is so."""
    over = sorted(
        limited
        for limited, amount in requested.items()
        if amount.nanos + parse(used.get(limited, "0")).nanos > parse(hard[limited]).nanos
    )
    if over and attributes.subresource != "status":
        requested_text, used_text, hard_text = (
            quota.joined(quota.masked(amounts, over))
            for amounts in (requested, parsed(quota.masked(used, over)), parsed(quota.masked(hard, over)))
        )
        raise attributes.forbidden(
            f"exceeded quota: {name}, requested: {requested_text}, used: {used_text}, limited: {hard_text}"
        )


def _charged(amounts: Amounts, attributes: Attributes, stored: Obj) -> Obj | None:
    """The stored quota with the amounts added; checked again, for other requests may have been charged meanwhile."""
    status = stored.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    if not (requested := quota.limited(amounts, hard)):
        return None
    _check_room(metadata(stored)["name"], requested, hard, used, attributes)
    total = quota.added(parsed(quota.masked(used, requested)), requested)
    return stored | {"status": status | {"used": used | quota.texts(total)}}


def _refunded(amounts: Amounts, stored: Obj) -> Obj | None:
    status = stored.get("status") or {}
    used = status.get("used") or {}
    left = quota.taken_back(parsed(quota.masked(used, amounts)), amounts)
    return stored | {"status": status | {"used": used | quota.texts(left)}}


def _may_count_differently(attributes: Attributes) -> bool:
    """An ordinary update of a pod matters only if it moves the pod between Terminating and NotTerminating."""
    if attributes.resource.qualified != PODS or attributes.operation is Operation.CREATE or attributes.subresource:
        return True
    old = (attributes.old or {}).get("spec") or {}
    return ("activeDeadlineSeconds" in attributes.spec) != ("activeDeadlineSeconds" in old)
