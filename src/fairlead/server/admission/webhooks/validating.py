"""ValidatingAdmissionWebhook: all webhooks that a request concerns are asked at once, and each may refuse it.

Source: apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go (1.36).
"""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead.api.errors import ApiError
from fairlead.api.resources import Resource
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.admission.webhooks.registered import Registered, Webhook
from fairlead.server.admission.webhooks.reviews import Reviews
from fairlead.server.metrics.requests import waiting

_FAILED_OPEN: Final = "failed-open.validating.webhook.admission.k8s.io/"
_CONFIGURATIONS: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"


class ValidatingAdmissionWebhook(AdmissionPlugin):
    name = "ValidatingAdmissionWebhook"
    subresources = None
    operations = frozenset(Operation)

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._registered = Registered(_CONFIGURATIONS, dependencies)
        self._reviews = Reviews(dependencies, is_mutating=False)

    async def validate(self, attributes: Attributes) -> None:
        concerned: list[tuple[Webhook, Resource]] = []
        for webhook in list(self._registered.each(attributes)):
            row = await self._registered.concerned(webhook, attributes)
            if row is not None:
                concerned.append((webhook, row))
        if not concerned:
            return
        asking = [self._refusal(index, webhook, attributes, row) for index, (webhook, row) in enumerate(concerned)]
        with waiting():
            refusals = await asyncio.gather(*asking) if len(asking) > 1 else [await asking[0]]
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    async def _refusal(self, index: int, webhook: Webhook, attributes: Attributes, row: Resource) -> ApiError | None:
        try:
            await self._reviews.ask(webhook, attributes, row, f"{_FAILED_OPEN}round_0_index_{index}")
        except ApiError as error:
            return error
        return None
