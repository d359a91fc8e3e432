"""A service says who may do what: SubjectAccessReviews, remembered for a while.

Source: k8s.io/apiserver, plugin/pkg/authorizer/webhook and pkg/authorization/cel (1.36).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from fairlead.api import field_selectors, selector_text
from fairlead.api.encoded import encode
from fairlead.api.meta import View
from fairlead.api.objects import Obj
from fairlead.api.selectors import Operator, SelectorError
from fairlead.api.users import User
from fairlead.caches import LruCache
from fairlead.cel.errors import CelError
from fairlead.cel.scope import Meter
from fairlead.client.calls import CallError
from fairlead.client.reviews import ReviewService
from fairlead.runtime.clock import monotonic
from fairlead.server.access import NO_OPINION, AccessRequest, Decision, UserRules, Verdict
from fairlead.server.auth.authorization_configuration import Webhook

_MOST_REMEMBERED: Final = 8192
#: Longer questions, and answers with longer reasons, are not remembered.
_LONGEST_QUESTION: Final = 10_000
_LONGEST_REASON: Final = 1024
#: What all conditions together may cost for one request.
_BUDGET: Final = 100_000
_NO_RULES: Final = UserRules((), False, "webhook authorizer does not support user rule resolution")
_OPERATORS: Final = {
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.IN: "In",
    Operator.NOT_EQUALS: "NotIn",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


class _Status(View):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class AccessWebhook:
    """One service. What this process asks of itself is not told to it. Whoever has made it closes it."""

    def __init__(self, service: ReviewService, webhook: Webhook) -> None:
        self._service, self._webhook = service, webhook
        self._known: LruCache[bytes, tuple[_Status, float]] = LruCache(_MOST_REMEMBERED)

    async def close(self) -> None:
        await self._service.close()

    def decide(self, request: AccessRequest) -> Verdict:
        return NO_OPINION

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return _NO_RULES

    async def authorize(self, request: AccessRequest) -> Verdict:
        spec = spec_of(request)
        try:
            if not self._concerns(spec):
                return NO_OPINION
            status = await self._status(request, spec)
        except (CelError, CallError) as error:
            return Verdict(self._webhook.on_failure, "", str(error))
        if status.denied:
            both = "webhook subject access review returned both allow and deny response" if status.allowed else ""
            return Verdict(Decision.DENY, status.reason, both)
        return Verdict(Decision.ALLOW if status.allowed else Decision.NO_OPINION, status.reason)

    def _concerns(self, spec: Obj) -> bool:
        """Whether all conditions hold. One that does not counts more than one that fails, which raises CelError."""
        if not self._webhook.conditions:
            return True
        variables, meter, failures = {"request": _shown(spec)}, Meter(_BUDGET), []
        for program in self._webhook.conditions:
            try:
                if not program.metered(variables, meter):
                    return False
            except CelError as error:
                failures.append(f"cel evaluation error: expression '{program.source}' resulted in error: {error}")
        if failures:
            raise CelError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True

    async def _status(self, request: AccessRequest, spec: Obj) -> _Status:
        webhook = self._webhook
        key = hashlib.sha256(encode(spec)).digest()
        known = self._known.get(key)
        if known is not None and monotonic() < known[1]:
            return known[0]
        asked = spec
        if webhook.version == "v1beta1":  # where groups have another name
            asked = {("group" if name == "groups" else name): value for name, value in spec.items()}
        api_version = f"authorization.k8s.io/{webhook.version}"
        status = await self._service.review("SubjectAccessReview", api_version, asked, {"allowed": False}, _Status)
        seconds = webhook.authorized_seconds if status.allowed else webhook.unauthorized_seconds
        if seconds > 0 and _controlled(request) < _LONGEST_QUESTION and len(status.reason) <= _LONGEST_REASON:
            self._known.put(key, (status, monotonic() + seconds))
        return status


def spec_of(request: AccessRequest) -> Obj:
    """What is asked, as a SubjectAccessReview says it."""
    user = request.user
    if request.is_resource_request:
        attributes = {
            "namespace": request.namespace,
            "verb": request.verb,
            "group": request.group,
            "version": request.version,
            "resource": request.resource,
            "subresource": request.subresource,
            "name": request.name,
            "fieldSelector": _field_requirements(request.field_selector),
            "labelSelector": _label_requirements(request.label_selector),
        }
        about = {"resourceAttributes": _stated(attributes)}
    else:
        about = {"nonResourceAttributes": _stated({"path": request.path, "verb": request.verb})}
    extra = {key: list(values) for key, values in user.extra}
    return about | _stated({"user": user.name, "groups": list(user.groups), "extra": extra, "uid": user.uid})


def _stated(values: Obj) -> Obj:
    return {name: value for name, value in values.items() if value}


def _field_requirements(text: str) -> Obj | None:
    """What a selector demands; nothing of one that cannot be read, which can only allow less than was asked for."""
    try:
        terms = field_selectors.parse(text).terms if text else ()
    except SelectorError:
        return None
    requirements = [
        {"key": term.field, "operator": "NotIn" if term.is_negated else "In", "values": [term.value]} for term in terms
    ]
    return {"requirements": requirements} if requirements else None


def _label_requirements(text: str) -> Obj | None:
    try:
        found = selector_text.parse(text).requirements if text else ()
    except SelectorError:
        return None
    requirements = [
        _stated({"key": each.key, "operator": _OPERATORS[each.operator], "values": list(each.values)})
        for each in found
        if each.operator in _OPERATORS
    ]
    return {"requirements": requirements} if requirements else None


def _shown(spec: Obj) -> dict[str, Any]:
    """The spec as conditions see it: texts that are empty are there."""
    shown: dict[str, Any] = {"user": "", "groups": [], "uid": "", "extra": {}} | spec
    if (attributes := spec.get("resourceAttributes")) is not None:
        names = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
        shown["resourceAttributes"] = dict.fromkeys(names, "") | attributes
    else:
        shown["nonResourceAttributes"] = {"path": "", "verb": ""} | spec["nonResourceAttributes"]
    return shown


def _controlled(request: AccessRequest) -> int:
    """How many characters of a question come from who asks."""
    texts = (request.namespace, request.verb, request.group, request.version, request.resource)
    return sum(map(len, (*texts, request.subresource, request.name, request.path)))
