"""MutatingAdmissionWebhook: webhooks that a request concerns are asked one after the other, and may change the object.

Whoever says `reinvocationPolicy: IfNeeded` is asked once more if the object was changed after they had seen it.
Source: apiserver/pkg/admission/plugin/webhook/mutating (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.encoded import encode
from fairlead.api.errors import ApiError, InternalError
from fairlead.api.objects import Obj
from fairlead.api.patches.bodies import PatchDoesNotApply
from fairlead.api.patches.json import JsonPatch, apply_json_patch
from fairlead.api.resources import Resource
from fairlead.golang.quoting import go_quote
from fairlead.runtime.offload import offload
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation, Reinvocation
from fairlead.server.admission.webhooks.registered import Registered, Webhook
from fairlead.server.admission.webhooks.reviews import Reviews
from fairlead.server.metrics.requests import waiting

_CONFIGURATIONS: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
_MUTATION: Final = "mutation.webhook.admission.k8s.io/"
_PATCH: Final = "patch.webhook.admission.k8s.io/"
#: How many operations of a patch make it one that takes long.
_MANY: Final = 100


class MutatingAdmissionWebhook(AdmissionPlugin):
    name = "MutatingAdmissionWebhook"
    subresources = None
    operations = frozenset(Operation)

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._registered = Registered(_CONFIGURATIONS, dependencies)
        self._reviews = Reviews(dependencies, is_mutating=True)

    async def admit(self, attributes: Attributes) -> None:
        webhooks = list(self._registered.each(attributes))
        if not webhooks:
            return
        attributes.reinvocation = rounds = attributes.reinvocation or Reinvocation()
        rounds.begin(self.name, attributes.obj)
        for index, webhook in enumerate(webhooks):
            row = await self._registered.concerned(webhook, attributes)
            if row is None or (rounds.is_running and webhook.uid not in rounds.due):
                continue
            await self._ask(webhook, attributes, row, rounds, f"round_{int(rounds.is_running)}_index_{index}")
        rounds.end(self.name, attributes.obj)

    async def _ask(
        self, webhook: Webhook, attributes: Attributes, row: Resource, rounds: Reinvocation, place: str
    ) -> None:
        """Ask one webhook; `place` is how the audit log calls this."""
        about = {"configuration": webhook.configuration, "webhook": webhook.name}
        has_changed = False
        try:
            with waiting():
                patch = await self._reviews.ask(webhook, attributes, row, f"failed-open.{_MUTATION}{place}")
            if patch is not None and patch.operations:
                has_changed = await _changed(webhook, attributes, row, patch)
                if attributes.audit is not None and attributes.audit.tells_request:
                    told = about | {"patch": patch.operations, "patchType": "JSONPatch"}
                    attributes.annotate(_PATCH + place, encode(told).decode())
        finally:
            attributes.annotate(_MUTATION + place, encode(about | {"mutated": has_changed}).decode())
        if has_changed:
            rounds.require()
            rounds.is_wanted = True
        if webhook.spec.get("reinvocationPolicy") == "IfNeeded":
            rounds.eligible.add(webhook.uid)


async def _changed(webhook: Webhook, attributes: Attributes, row: Resource, patch: JsonPatch) -> bool:
    """Change the object; whether the patch changed anything."""
    if attributes.operation is Operation.DELETE or attributes.view is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise InternalError.of(f"admission webhook {go_quote(webhook.name)} {text}")
    before, _ = await attributes.shown(row)
    assert before is not None
    is_long = attributes.is_long or len(patch.operations) > _MANY
    patched = await offload(lambda: _patched(before, patch), is_long=is_long)
    if patched == before:
        return False
    try:
        attributes.obj = await attributes.view.taken(patched, row)
    except ApiError as error:
        raise InternalError.of(error.message) from None
    return True


def _patched(obj: Obj, patch: JsonPatch) -> Obj:
    try:
        patched = apply_json_patch(obj, patch)
    except PatchDoesNotApply as error:
        raise InternalError.of(error.why) from None
    if not isinstance(patched, dict):
        raise InternalError.of("the patched object is none")
    return patched
