"""One try to write one object, step by step; it owns the object from the client's body to what is stored.

    receive ▸ admit ▸ (hand back: normal and defaulted again) ▸ validate ▸ admission's last word ▸ store

`create.py` and `update.py` say in which order a new and a changed object take the steps. Somebody else may have been
faster: then the attempt is over, and the next one begins with a fresh copy of what the client sent.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from fairlead.api.errors import ApiError, BadRequest
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import PatchType
from fairlead.runtime.apart import apart
from fairlead.server.admission.base import Admission, Attributes, Operation
from fairlead.server.apply.ownership import mark_reset
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.context import WriteRequest
from fairlead.server.registry.patching import check_kind, unreadable
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.subresources.endpoint import MAIN, Endpoint

#: Patches of the document, which says of what kind it is.
_DOCUMENTS = frozenset({PatchType.MERGE, PatchType.JSON})
_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


class WriteAttempt:
    """The object that is being written, where it was before, and what the client is to be warned of.

    Within a `with` statement, a refusal tells what was noticed before it.
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

    async def think(self, step: Callable[[], None]) -> None:
        """Take a step that asks nobody: for a large object, beside the event loop."""
        await apart(step, is_long=self.is_long)

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
        self.warnings += request.judge(unknown, row.kind, row.version)
        self.obj = version.to_stored(sent) if version.to_stored and endpoint.is_whole else sent

    def receive_desired(self, sent: Obj) -> None:
        """The same of what a change leads to; if it is no object of the kind, a patch is to blame in its own words."""
        patch = self.request.patch
        if patch is None:
            self.receive(sent)
            return
        try:
            self.receive(sent)
        except BadRequest as error:
            raise unreadable(patch.body, patch.type, sent, _reason_within(error.message)) from None

    def merge_owners(self) -> None:
        """Say each owner once, and tell the client that it did not."""
        if repeated := metadata_rules.without_repeated_owners(self.obj):
            when = " after mutating admission happens" if self.request.patch else ""
            self.warnings.append(_REPEATED_OWNERS.format(when, ", ".join(repeated)))

    async def admit(self, operation: Operation) -> None:
        """Let admission change the object. One that it hands back instead is made normal and given defaults again."""
        meta, request, served = metadata(self.obj), self.request, self.served
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
            self.warnings,
        )
        await self._admission.admit(attributes)
        if attributes.obj is not self.obj:
            self.obj = attributes.obj
            served.stored_version.normalise(self.obj)
            served.strategy.default(self.obj)

    async def admit_finally(self) -> None:
        """Admission's last word on what is about to be stored."""
        assert self.attributes is not None
        await self._admission.validate(self.attributes)

    async def undo(self) -> None:
        """Nothing was written: take back what admission charged for it."""
        for undo in self.attributes.on_failure if self.attributes else ():
            await undo()

    def refuse(self, errors: Errors) -> None:
        """Raise `Invalid` if a rule was broken."""
        row = self.served.resource
        errors.raise_invalid(row.kind, metadata(self.obj).get("name", ""), row.group)


def _reason_within(message: str) -> str:
    """`Pod in version "v1" cannot be handled as a Pod: WHY`."""
    return message.partition(": ")[2] if " cannot be handled as a " in message else message
