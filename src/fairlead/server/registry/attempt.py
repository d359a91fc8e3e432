"""One try to write one object, step by step; it owns the object from the client's body to what is stored.

    receive ▸ admit (mutating) ▸ validate ▸ validate_admission ▸ store

`create.py` and `update.py` hold the order of the steps. If another writer was faster, the attempt is over, and the next
one begins with a fresh copy of what the client sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

from fairlead.api.errors import ApiError, BadRequest
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import PatchType
from fairlead.runtime.offload import offload
from fairlead.server.admission.base import Admission, Attributes, Operation
from fairlead.server.apply.ownership import mark_reset
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.context import WriteRequest
from fairlead.server.registry.patching import check_kind, unreadable
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.subresources.endpoint import MAIN, Endpoint

log = logging.getLogger(__name__)

#: Patches of the document, which says of what kind it is.
_DOCUMENTS = frozenset({PatchType.MERGE, PatchType.JSON})
_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


class WriteAttempt:
    """The object that is being written, the stored object that it replaces, and the warnings for the client.

    Used in a `with` statement, so that a refusal carries the warnings that came before it.
    """

    __slots__ = ("_admission", "attributes", "endpoint", "is_long", "obj", "old", "request", "served", "warnings")

    def __init__(self, admission: Admission, served: Served, request: WriteRequest, endpoint: Endpoint = MAIN) -> None:
        self._admission = admission
        self.served, self.request, self.endpoint = served, request, endpoint
        self.obj: Obj = {}
        self.old: Obj | None = None
        self.attributes: Attributes | None = None
        self.warnings: list[str] = []
        self.is_long = request.is_long()

    @property
    def meta(self) -> Obj:
        return metadata(self.obj)

    async def compute(self, step: Callable[[], None]) -> None:
        """Take a step that awaits nothing: for a large object, beside the event loop."""
        await offload(step, is_long=self.is_long)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, ApiError):
            error.warnings = self.warnings

    def receive(self, sent: Obj) -> None:
        """Take what the client sent, in normal form and in the stored version."""
        request, endpoint, version = self.request, self.endpoint, self.request.version
        if request.patch is None or request.patch.type in _DOCUMENTS:
            check_kind(sent, body_type_of(version.resource, request.subresource))
        if not request.tracks_fields:
            sent = endpoint.narrowed(sent)
        mark_reset(sent)
        unknown = endpoint.normalise(version)(sent)
        row = version.resource
        self.warnings += request.apply_field_validation(unknown, row.kind, row.version)
        self.obj = version.to_stored(sent) if version.to_stored and endpoint.is_whole else sent

    def receive_desired(self, sent: Obj) -> None:
        """The same for the result of a change; one that is not of the kind gets the error of the patch format."""
        patch = self.request.patch
        if patch is None:
            self.receive(sent)
            return
        try:
            self.receive(sent)
        except BadRequest as error:
            raise unreadable(patch.body, patch.type, sent, _reason_within(error.message)) from None

    def merge_owners(self) -> None:
        """Keep each owner reference once, and warn the client that it repeated some."""
        if repeated := metadata_rules.merge_owner_references(self.meta):
            when = " after mutating admission happens" if self.request.patch else ""
            self.warnings.append(_REPEATED_OWNERS.format(when, ", ".join(repeated)))

    async def admit(self, operation: Operation) -> None:
        """Let admission change the object. A replacement that it returns is normalised and defaulted again."""
        meta, request, served = self.meta, self.request, self.served
        self.attributes = attributes = Attributes(
            operation,
            served.resource,
            meta.get("namespace", ""),
            meta.get("name", ""),
            self.obj,
            self.old,
            request.subresource,
            request.options.dry_run,
            request.context.user,
            self.is_long,
            self.warnings,
            audit=request.context.audit,
        )
        await self._admission.admit(attributes)
        if attributes.obj is not self.obj:
            self.obj = attributes.obj
            served.stored_version.normalise(self.obj)
            served.strategy.default(self.obj)

    async def validate_admission(self) -> None:
        """Let admission refuse what is about to be stored (the validating phase)."""
        assert self.attributes is not None
        await self._admission.validate(self.attributes)

    async def undo(self) -> None:
        """Nothing was written: take back what admission charged for it. Who asked is told why it was not."""
        for undo in self.attributes.on_failure if self.attributes else ():
            try:
                await undo()
            except ApiError as error:  # the store, mostly; what is counted will be counted again
                log.warning("%s: not taken back: %s", self.served.resource.plural, error)

    def refuse(self, errors: Errors) -> None:
        """Raise `Invalid` if a rule was broken."""
        row = self.served.resource
        errors.raise_invalid(row.kind, self.meta.get("name", ""), row.group)


def _reason_within(message: str) -> str:
    """`Pod in version "v1" cannot be handled as a Pod: WHY`."""
    return message.partition(": ")[2] if " cannot be handled as a " in message else message
