"""Who may write what into the status of a ResourceClaim, and who may ask for administrators' access to devices.

The right to write the status is not enough: an allocation and whom it is reserved for take `resourceclaims/binding`,
what is told of devices takes `resourceclaims/driver` of their driver, for drivers on the node of the allocation
(`associated-node:VERB`) or for those of any (`arbitrary-node:VERB`). kube-apiserver asks in the strategy of the kind,
hence the form of its answer. Source: pkg/registry/resource/utils.go (1.36,
DRAResourceClaimGranularStatusAuthorization).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.users import NODE_OF_ACCOUNT, account_of
from fairlead.kinds.device_claims import drop_deallocated, results_of
from fairlead.kinds.devices import GROUP
from fairlead.server.access import AccessRequest, Authorizer, forbidden
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation

_CLAIMS: Final = f"resourceclaims.{GROUP}"
_TEMPLATES: Final = f"resourceclaimtemplates.{GROUP}"
_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_NODE_FIELD: Final = "metadata.name"


class ClaimAccess(AdmissionPlugin):
    """Asks about each part of a status that changes."""

    name = "ResourceClaimAccess"
    resources = frozenset({_CLAIMS, _TEMPLATES})
    subresources = frozenset({"", "status"})

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer: Authorizer = dependencies.authorizer

    async def validate(self, attributes: Attributes) -> None:
        errors = Errors()
        if attributes.subresource:
            new, old = _status(attributes.obj), _status(attributes.old or {})
            if not any(_wants_admin(result) for result in _results(old)):
                self._check_admin(attributes, _results(new), "status.allocation.devices.results", errors)
            await self._check_binding(attributes, new, old, errors)
            await self._check_devices(attributes, new, old, errors)
        elif attributes.operation is Operation.CREATE:
            spec = attributes.obj.get("spec") or {}
            if attributes.resource.qualified == _TEMPLATES:
                spec = spec.get("spec") or {}
            self._check_admin(attributes, _requests(spec), "spec.devices.requests", errors)
        row = attributes.resource
        errors.raise_invalid(row.kind, attributes.name, row.group)

    def _check_admin(self, attributes: Attributes, asked: Sequence[Obj], path: str, errors: Errors) -> None:
        index = next((number for number, item in enumerate(asked) if _wants_admin(item)), None)
        if index is None:
            return
        namespace = self._reader.find("namespaces", attributes.namespace)
        labels = namespace.metadata().get("labels") if namespace else None
        if (labels or {}).get(_ADMIN_LABEL) != "true":
            text = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
            errors.forbidden(f"{path}[{index}].adminAccess", text)

    async def _check_binding(self, attributes: Attributes, new: Obj, old: Obj, errors: Errors) -> None:
        if all((new.get(part) or None) == (old.get(part) or None) for part in ("allocation", "reservedFor")):
            return
        asked = _asked(attributes, attributes.verb, "binding")
        if why := await self._refusal([asked]):
            needed = f'resource="resourceclaims/binding", verb="{attributes.verb}"'
            text = f"changing status.allocation or status.reservedFor requires {needed} permission: {why}"
            errors.forbidden("status", text)

    async def _check_devices(self, attributes: Attributes, new: Obj, old: Obj, errors: Errors) -> None:
        verbs = [f"arbitrary-node:{attributes.verb}"]
        if _is_on_node(attributes, new):
            verbs.insert(0, f"associated-node:{attributes.verb}")
        for driver in _changed_drivers(new, _without_deallocated(old, new)):
            asked = [_asked(attributes, verb, "driver", attributes.namespace, driver) for verb in verbs]
            if why := await self._refusal(asked):
                needed = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
                errors.forbidden("status.devices", f"changing status.devices requires {needed} permission: {why}")

    async def _refusal(self, asked: Iterable[AccessRequest]) -> str:
        """Nothing if one of these is allowed, else why the first is not."""
        first = ""
        for request in asked:
            verdict = await self._authorizer.authorize(request)
            if verdict.is_allowed:
                return ""
            why = ": ".join(filter(None, (verdict.error, verdict.reason)))
            first = first or forbidden(request, why).message
        return first


def _asked(attributes: Attributes, verb: str, part: str, namespace: str = "", name: str = "") -> AccessRequest:
    row = attributes.requested
    return AccessRequest(attributes.user, verb, row.group, row.version, row.plural, part, namespace, name)


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def _results(status: Obj) -> Sequence[Obj]:
    return results_of(status.get("allocation") or {})


def _requests(spec: Obj) -> Sequence[Obj]:
    return [request.get("exactly") or {} for request in (spec.get("devices") or {}).get("requests") or ()]


def _wants_admin(item: Obj) -> bool:
    return bool(item.get("adminAccess"))


def _changed_drivers(new: Obj, old: Obj) -> list[str]:
    """Whose devices are told of anew, otherwise, or no more; by name."""
    before, after = _by_device(old), _by_device(new)
    changed = (key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return sorted({driver for driver, *_ in changed})


def _without_deallocated(old: Obj, new: Obj) -> Obj:
    """What is told of devices goes with their allocation, whoever takes that back: nobody else has to be asked."""
    kept: Obj = {"status": {"allocation": new.get("allocation"), "devices": old.get("devices")}}
    drop_deallocated(kept, {"status": old})
    return _status(kept)


def _by_device(status: Obj) -> dict[tuple[str, ...], Obj]:
    keys = ("driver", "pool", "device", "shareID")
    return {tuple(device.get(key) or "" for key in keys): device for device in status.get("devices") or ()}


def _is_on_node(attributes: Attributes, status: Obj) -> bool:
    """Whether a service account asks whose token is bound to the node of the allocation."""
    user = attributes.user
    node = user.extra_value(NODE_OF_ACCOUNT)
    return bool(node) and account_of(user.name) is not None and node == _node_of(status)


def _node_of(status: Obj) -> str:
    """The one node on which an allocation can be used."""
    selector = (status.get("allocation") or {}).get("nodeSelector") or {}
    terms: Sequence[Obj] = selector.get("nodeSelectorTerms") or ()
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: Sequence[Obj] = terms[0].get("matchFields") or ()
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != (_NODE_FIELD, "In"):
        return ""
    values: Sequence[str] = fields[0].get("values") or ()
    return values[0] if len(values) == 1 else ""
