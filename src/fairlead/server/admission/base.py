"""What an admission plugin sees of a request, and what it may do.

Plugins run in Kubernetes' order, all `admit`s before all `validate`s (server/admission/chain.py). `admit` may
change the object in place; both may refuse by raising `Forbidden.of(...)`. They read other objects through
`Reader`, straight from the watch cache.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import Cause, Forbidden
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import Selector
from fairlead.api.users import INTERNAL_USER, User
from fairlead.client.webhooks import WebhookClient
from fairlead.server.access import Authorizer
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.admission.evaluation import RequestTime
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.metrics.admission import WebhookMetrics


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"

    __hash__ = str.__hash__  # a key at every write, and Enum's own is a function of Python


class Reinvocation(msgspec.Struct):
    """Whether the plugins that change the object are asked again, as those after them changed it."""

    is_wanted: bool = False
    is_running: bool = False
    #: The webhooks and policies that want to be asked again, and those that will be.
    eligible: set[str] = set()
    due: set[str] = set()
    #: The object as each of the plugins left it that ask others.
    last: dict[str, bytes] = {}

    def require(self) -> None:
        """The object has changed: those who have seen it as it was, and want to see how it is now, are asked again."""
        self.due |= self.eligible
        self.eligible.clear()

    def begin(self, plugin: str, obj: Obj) -> None:
        """A plugin begins to ask: in the second round again those who have not seen what other plugins changed."""
        if self.is_running and self.last.get(plugin) != encode(obj):
            self.require()

    def end(self, plugin: str, obj: Obj) -> None:
        """It has asked all."""
        if self.is_wanted and not self.is_running:
            self.last[plugin] = encode(obj)


class Kind(NamedTuple):
    """A kind of object in one version."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class RequestView(Protocol):
    """What those who are asked about a request may see of it, in each version in which its object can be shown."""

    @property
    def requested(self) -> Resource:
        """The resource in the version in which the client asked."""
        ...

    @property
    def verb(self) -> str:
        """What is asked of authorization: a change may be an update or a patch."""
        ...

    def rows(self) -> Sequence[Resource]:
        """The resource in all versions in which it is served."""
        ...

    def kind(self, row: Resource) -> Kind:
        """What is shown in that version: the kind itself, or what the subresource has instead of it."""
        ...

    def options(self, operation: Operation) -> Obj:
        """CreateOptions and the like, as the client gave them."""
        ...

    async def shown(self, obj: Obj, row: Resource) -> Obj:
        """An object of the request in that version. The caller leaves it as it is."""
        ...

    def applied(self, obj: Obj, config: Obj, row: Resource) -> Obj:
        """An object in that version with an apply configuration merged into it. ValueError: why it cannot be."""
        ...

    async def taken(self, sent: Obj, row: Resource) -> Obj:
        """What somebody made of an object in that version, in the form in which the request goes on, with defaults."""
        ...


class Attributes(msgspec.Struct):
    """One request on its way through admission."""

    operation: Operation
    resource: Resource
    namespace: str
    name: str
    obj: Obj  # the new object; for DELETE the old one
    old: Obj | None = None
    subresource: str = ""
    dry_run: bool = False
    user: User = INTERNAL_USER
    #: Whether the object is so large that whoever looks at all of it does so beside the loop (`runtime/offload.py`).
    is_long: bool = False
    warnings: list[str] = []
    #: Undo actions, run if admission refuses or the write fails after it (a quota gives back what it charged).
    on_failure: list[Callable[[], Awaitable[None]]] = []
    #: What the audit log is told of the request; None: nothing.
    audit: RequestAudit | None = None
    #: None: there is one version, the stored one.
    view: RequestView | None = None
    #: Whether the plugins that change the object are asked again; made by the first whom that concerns.
    reinvocation: Reinvocation | None = None
    #: What all attempts of a write share; without it the first plugin that needs one makes it (`time`).
    shared_time: RequestTime | None = None

    @property
    def time(self) -> RequestTime:
        """What all share that may take long, from the first of them on."""
        if self.shared_time is None:
            self.shared_time = RequestTime(self.user.name)
        return self.shared_time

    @property
    def requested(self) -> Resource:
        """The resource in the version in which the client asked."""
        return self.view.requested if self.view else self.resource

    @property
    def verb(self) -> str:
        """The verb of the request, by which authorization knows it."""
        return self.view.verb if self.view else self.operation.lower()

    def kind(self, row: Resource) -> Kind:
        """What is shown of the request in that version."""
        return self.view.kind(row) if self.view else Kind(row.group, row.version, row.kind)

    def options(self) -> Obj:
        """CreateOptions and the like."""
        return self.view.options(self.operation) if self.view else {}

    async def shown(self, row: Resource) -> tuple[Obj | None, Obj | None]:
        """The object and the old object in that version; there is no object where it is deleted."""
        obj, old = (None, self.obj) if self.operation is Operation.DELETE else (self.obj, self.old)
        if self.view is None:
            return obj, old
        shown = self.view.shown
        return await shown(obj, row) if obj else obj, await shown(old, row) if old else old

    def annotate(self, key: str, value: str) -> None:
        """Say something in the audit log, if it tells of this request."""
        if self.audit is not None:
            self.audit.annotate(key, value)

    @property
    def spec(self) -> Obj:
        """The new object's spec, made empty if it has none, so that a plugin may write to it."""
        found: Obj = self.obj.setdefault("spec", {})
        return found

    def forbidden(self, why: str, *causes: Cause) -> Forbidden:
        """`pods "x" is forbidden: why`; an object that has no name yet is called by its generateName."""
        meta = metadata(self.obj)
        name = self.name or meta.get("name") or meta.get("generateName") or "Unknown"
        refusal = Forbidden.of(self.resource.plural, name, why, self.resource.group)
        refusal.causes.extend(causes)
        return refusal


class Reader(Protocol):
    """Synchronous reads of the committed objects."""

    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None:
        """The object, or None; `resource` is `Resource.qualified` (`pods`, `priorityclasses.scheduling.k8s.io`)."""
        ...

    def each(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        """All objects of a namespace (or of the cluster), sorted by key."""
        ...

    async def selected(self, resource: str, namespace: str, selector: Selector) -> Sequence[Encoded]:
        """Those with such labels. Of many, others get their turn meanwhile: they are those of one moment."""
        ...

    def resource_of(self, group: str, version: str, kind: str) -> Resource | None:
        """The kind that references by that apiVersion and kind are to; None if it is not served."""
        ...


class Writer(Protocol):
    """The few writes that admission and subresources themselves perform."""

    async def guaranteed_update(
        self,
        resource: str,
        name: str,
        namespace: str,
        change: Callable[[Obj], Obj | None],
        *,
        dry_run: bool = False,
    ) -> Obj | None:
        """Read, change, write back, and repeat while other writers are faster.

        `change` gets the current object and returns the new one, or None to leave it. It may raise to give up.
        Returns what is stored at the end, None if the object is gone.
        """
        ...


class Creator(Protocol):
    """The server as one of its own clients: what it makes passes admission as well (`UserApi`)."""

    async def create(self, resource: Resource, obj: Obj) -> Encoded: ...


CREATE_ONLY = frozenset({Operation.CREATE})
CREATE_AND_UPDATE = frozenset({Operation.CREATE, Operation.UPDATE})
UPDATE_ONLY = frozenset({Operation.UPDATE})


class Dependencies(msgspec.Struct, frozen=True):
    """What the server gives its plugins, once."""

    reader: Reader
    writer: Writer
    authorizer: Authorizer
    creator: Creator
    webhooks: WebhookClient
    configuration: AdmissionConfiguration = UNCONFIGURED
    webhook_metrics: WebhookMetrics = msgspec.field(default_factory=WebhookMetrics)


class AdmissionPlugin:
    """A plugin that does nothing; subclasses override either method and say which requests concern them."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._reader, self._writer, self._creator = dependencies.reader, dependencies.writer, dependencies.creator

    name: ClassVar[str] = ""
    #: `Resource.qualified` of the kinds it looks at; None for every kind.
    resources: ClassVar[frozenset[str] | None] = None
    #: Subresources it looks at ("" is the object itself); None for every one.
    subresources: ClassVar[frozenset[str] | None] = frozenset({""})
    operations: ClassVar[frozenset[Operation]] = CREATE_AND_UPDATE

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        """Whether the plugin handles such requests; the chain asks once for each kind of request."""
        return (
            operation in self.operations
            and (self.resources is None or resource in self.resources)
            and (self.subresources is None or subresource in self.subresources)
        )

    async def close(self) -> None:
        """End what it has open: the server stops."""

    async def admit(self, attributes: Attributes) -> None:
        """Change the object, or refuse."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuse, or charge for what is about to be written; the object is final."""


class Admission(Protocol):
    """All plugins that are switched on (server/admission/chain.py)."""

    async def admit(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...
