"""The webhooks of the configurations, and which of them are asked about a request."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.errors import Forbidden
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, name_of
from fairlead.api.resources import Resource
from fairlead.cel.errors import CelError
from fairlead.kinds.admission_expressions import Condition, compile_conditions
from fairlead.kinds.webhook_configurations import DEFAULT_TIMEOUT_SECONDS
from fairlead.server.admission import matching
from fairlead.server.admission.base import Attributes, Dependencies
from fairlead.server.admission.evaluation import CONDITIONS_BUDGET, Budget
from fairlead.server.admission.expressions import activation, all_hold


class Webhook(msgspec.Struct, frozen=True):
    """A webhook as it is stored."""

    name: str
    configuration: str
    spec: Obj
    conditions: tuple[Condition, ...]
    seconds: int
    #: Whether a request passes if it does not answer.
    is_ignorable: bool

    @property
    def uid(self) -> str:
        """What tells it from all others."""
        return f"{self.configuration}/{self.name}"

    @property
    def is_harmless(self) -> bool:
        """Whether it may be asked about a dry run."""
        return self.spec.get("sideEffects") in ("None", "NoneOnDryRun")


def _webhooks(entry: Encoded) -> tuple[Webhook, ...]:
    obj = entry.obj()
    return tuple(
        Webhook(
            spec["name"],
            name_of(obj),
            spec,
            compile_conditions(spec.get("matchConditions") or (), "", Errors()),
            spec.get("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS),
            spec.get("failurePolicy") == "Ignore",
        )
        for spec in obj.get("webhooks") or ()
    )


class Registered:
    """All webhooks of one kind of configuration."""

    def __init__(self, qualified: str, dependencies: Dependencies) -> None:
        self._qualified, self._reader = qualified, dependencies.reader
        self._authorizer, self._client = dependencies.authorizer, dependencies.webhooks

    def each(self, attributes: Attributes) -> Iterator[Webhook]:
        """In the order in which they are asked; none about requests that no webhook hears of."""
        if self._client.has_begun and not matching.is_exempt(attributes):
            for entry in self._reader.each(self._qualified):
                yield from entry.kept(_webhooks)

    async def concerned(self, webhook: Webhook, attributes: Attributes) -> Resource | None:
        """The version in which a webhook is asked about a request; None: it is not. Forbidden: nobody can say."""
        spec = webhook.spec
        if not matching.selects_namespace(spec.get("namespaceSelector"), attributes, self._reader):
            return None
        if not matching.selects_object(spec.get("objectSelector"), attributes):
            return None
        row = matching.named_by(spec.get("rules") or (), spec.get("matchPolicy"), attributes)
        if row is None or not webhook.conditions:
            return row
        variables = activation(attributes, row, await attributes.shown(row), self._authorizer)
        try:
            are_met = await attributes.time.evaluate(
                lambda until: all_hold(webhook.conditions, variables, Budget(CONDITIONS_BUDGET, until))
            )
            return row if are_met else None
        except CelError as error:
            if webhook.is_ignorable:
                return None
            resource = attributes.requested
            raise Forbidden.of(resource.plural, attributes.name, str(error), resource.group) from None
