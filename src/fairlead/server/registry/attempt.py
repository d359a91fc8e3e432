"""One try to write one object, step by step; it owns the object from the client's body to what is stored.

    receive ▸ admit (mutating) ▸ validate ▸ validate_admission ▸ store

`create.py` and `update.py` hold the order of the steps. If another writer was faster, the attempt is over, and the next
one begins with a fresh copy of what the client sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from fairlead.api.encoded import copied, encode
from fairlead.api.errors import ApiError, BadRequest
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, PatchType
from fairlead.runtime.offload import offload
from fairlead.runtime.tracing import step
from fairlead.server.admission.base import Admission, Attributes, Kind, Operation
from fairlead.server.admission.evaluation import RequestTime
from fairlead.server.apply.field_managers import form_of, scale_form
from fairlead.server.apply.ownership import mark_reset, merged
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.context import WriteRequest
from fairlead.server.crds.custom import CustomStrategy
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

    Used in a `with` statement: a refusal carries the warnings that came before it, and nothing is kept after the end.
    """

    __slots__ = (
        "_admission",
        "attributes",
        "delete_options",
        "endpoint",
        "is_handed_over",
        "is_long",
        "obj",
        "old",
        "request",
        "served",
        "time",
        "warnings",
    )

    def __init__(
        self,
        admission: Admission,
        served: Served,
        request: WriteRequest,
        endpoint: Endpoint = MAIN,
        time: RequestTime | None = None,
    ) -> None:
        """`time` is what it shares with other attempts of the same request."""
        self._admission, self.time = admission, time
        self.served, self.request, self.endpoint = served, request, endpoint
        self.obj: Obj = {}
        self.old: Obj | None = None
        self.attributes: Attributes | None = None
        self.warnings: list[str] = []
        self.is_long = self.takes_long()
        self.delete_options: DeleteOptions | None = None
        self.is_handed_over = False

    @property
    def meta(self) -> Obj:
        return metadata(self.obj)

    def takes_long(self, stored_bytes: int = 0) -> bool:
        """Whether it is computed beside the event loop, together with the stored object."""
        size = self.request.context.body_bytes + stored_bytes
        return self.request.is_long(stored_bytes) or size >= self.served.strategy.slow_bytes

    async def compute(self, step: Callable[[], None]) -> None:
        """Take a step that awaits nothing: for a large object, beside the event loop."""
        await offload(step, is_long=self.is_long)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, ApiError):
            error.warnings = self.warnings
        if self.attributes is not None:  # which refer to each other: large objects would stay until a full collection
            self.attributes.view = None

    def receive(self, sent: Obj) -> None:
        """Take what the client sent, in normal form and in the stored version."""
        request, endpoint, version = self.request, self.endpoint, self.request.version
        if request.patch is None or request.patch.type in _DOCUMENTS:
            check_kind(sent, body_type_of(version.resource, request.subresource))
        if not request.tracks_fields and version.to_stored is None:  # what is converted is converted as a whole
            sent = endpoint.narrowed(sent)
        mark_reset(sent)
        unknown = endpoint.normalise(version, is_applied=request.is_apply)(sent)
        row = version.resource
        self.warnings += request.apply_field_validation(unknown, row.kind, row.version)
        if self.served.crd is not None and endpoint.is_whole and "apiVersion" not in sent:
            sent = {"kind": row.kind, "apiVersion": row.api_version} | sent  # by which its schema is found
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

    async def admit(self, operation: Operation) -> bool:
        """Let admission change the object; whether it replaced it by another one, which is normalised and defaulted."""
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
            view=self,
            shared_time=self.time,
        )
        with step("admission: mutating"):
            await self._admission.admit(attributes)
        is_replaced = attributes.obj is not self.obj
        self.obj = attributes.obj
        if is_replaced and served.crd is None:  # a custom object has a version of its own, and is normal in it
            served.stored_version.normalise(self.obj)
            served.strategy.default(self.obj)
        # a LimitRange, a service account or a class may have added far more than the client sent
        self.is_long = attributes.is_long = self.is_long or self.takes_long(len(encode(self.obj)))
        return is_replaced

    async def validate_admission(self) -> None:
        """Let admission refuse what is about to be stored (the validating phase)."""
        assert self.attributes is not None
        with step("admission: validating"):
            await self._admission.validate(self.attributes)

    # -- what those who are asked about the request see of it (admission.base.RequestView)

    @property
    def requested(self) -> Resource:
        return self.request.version.resource

    @property
    def verb(self) -> str:
        if self.request.patch is not None:
            return "patch"
        return "create" if self.old is None else "update"

    def rows(self) -> list[Resource]:
        return [version.resource for version in self.served.versions.values()]

    def kind(self, row: Resource) -> Kind:
        if self.endpoint.is_whole:
            return Kind(row.group, row.version, row.kind)
        body_type = body_type_of(row, self.request.subresource)
        return Kind(body_type.group, body_type.version, body_type.kind)

    def options(self, operation: Operation) -> Obj:
        if self.delete_options is not None:
            return self.delete_options.body()
        return self.request.options.body(f"{operation.capitalize()}Options")

    async def shown(self, obj: Obj, row: Resource) -> Obj:
        kind, served = self.kind(row), self.served
        if not self.endpoint.is_whole:
            found = self.endpoint.shown(served, copied(obj))
        elif isinstance(served.strategy, CustomStrategy):
            found = await served.strategy.in_version(obj, row.api_version)
        else:
            convert, stored = served.versions[row.api_version].from_stored, served.resource
            typed = {"kind": stored.kind, "apiVersion": stored.api_version}
            found = convert(typed | copied(obj)) if convert else obj
        return {"kind": kind.kind, "apiVersion": kind.api_version} | found

    def applied(self, obj: Obj, config: Obj, row: Resource) -> Obj:
        form = form_of(self.served, row) if self.endpoint.is_whole else scale_form()
        return merged(obj, config, form)

    async def taken(self, sent: Obj, row: Resource) -> Obj:
        served, endpoint, version = self.served, self.endpoint, self.served.versions[row.api_version]
        check_kind(sent, body_type_of(row, self.request.subresource))
        endpoint.normalise(version)(sent)
        if not endpoint.is_whole:
            assert self.old is not None
            return endpoint.merged(served, sent, self.old)
        if isinstance(served.strategy, CustomStrategy):
            return await served.strategy.in_version(sent, self.requested.api_version)
        if version.to_stored:
            sent = version.to_stored(sent)
        served.strategy.default(sent)
        return sent

    async def stored(self) -> Obj:
        """The object in the version in which it is stored."""
        served = self.served
        if served.converter is not None:
            return await served.converter.converted(self.obj, served.resource.api_version)
        if isinstance(served.strategy, CustomStrategy):
            return await served.strategy.in_version(self.obj, served.resource.api_version)
        return self.obj

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """The store gets the object meanwhile: whoever is cancelled then does not know what becomes of it."""
        self.is_handed_over = True
        try:
            yield
        except Exception:
            self.is_handed_over = False
            raise

    async def undo(self) -> None:
        """Take back what admission charged, unless the object was written, or may be. Who asked is told why not."""
        if self.is_handed_over:
            return
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
