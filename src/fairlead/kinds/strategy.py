"""What a kind does beyond being stored.

The generic registry creates, reads, patches and deletes objects of every kind. A `Strategy` adds what is peculiar
to one: its defaults, its rules, what a user may not set. Most kinds need none. The strategies of the
built-in kinds live in `kinds/`, one module a topic, and `STRATEGIES` there maps `Resource.qualified` to them.

All methods get plain dicts in normal form (`server/codec/normalise.py`): types are right, unknown fields and nulls are
gone, quantities are canonical. They change the dict in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions

if TYPE_CHECKING:
    from fairlead.api.users import User

#: Reads one selectable field off an object; an absent field reads as "".
FieldGetter = Callable[[Obj], str]


#: What a status says nothing about, where a kind holds to that (upstream's ResetObjectMetaForStatus).
NOT_OF_STATUS: Final = ("labels", "annotations", "finalizers", "ownerReferences")


class MetaCheck(Enum):
    """One of the checks of changed metadata that upstream repeats for a kind; each reports its causes again."""

    CHANGE = auto()  # ValidateObjectMetaUpdate
    WHOLE = auto()  # ValidateObjectMeta


class Strategy:
    """The behaviour of an ordinary kind; subclasses override what differs."""

    #: Field selectors beyond metadata.name and metadata.namespace.
    selectable: Mapping[str, FieldGetter] = {}
    #: From how many bytes on an object is validated beside the event loop, if not only because of its size: its rules
    #: take long.
    slow_bytes: float = math.inf
    #: Whether metadata.generation counts the changes of the spec.
    has_generation: bool = False
    #: Whether a user's status on the main resource is dropped (True where a status subresource exists).
    has_status: bool = False
    #: Whether an update may come without a resourceVersion.
    allows_unconditional_update: bool = True
    #: What the kind's own rules look at again when it is updated.
    meta_checks: tuple[MetaCheck, ...] = (MetaCheck.CHANGE,)
    #: Whether a PUT to a name that does not exist creates the object.
    allows_create_on_update: bool = False
    #: Whether somebody else (a node agent) finishes a deletion within a grace period.
    deletes_gracefully: bool = False
    #: Whether a DELETE may wait for the garbage collector; it never does for an event.
    is_collected: bool = True
    #: Whether dependents stay when a DELETE names no propagation policy (as they did before there was one).
    orphans_by_default: bool = False
    #: What is said to a DELETE that names no propagation policy.
    deletion_warning: str = ""
    #: Whether DELETE answers with the object that it removed rather than with a Status.
    returns_deleted: bool = False
    #: The fields of metadata that a write to the status subresource leaves as they were.
    kept_by_status: Collection[str] = ()

    def selectable_in(self, api_version: str) -> Mapping[str, FieldGetter]:
        """The field selectors of one version of the kind, by the names that fields have there."""
        return self.selectable

    def unknown_field(self, field: str) -> str:
        """The refusal of a selector by an unknown field; upstream has a function for each kind."""
        return f"field label not supported: {field}"

    def refresh(self, obj: Obj) -> Obj:
        """A stored object under the present rules of its kind. The caller owns the dict."""
        return obj

    def default(self, obj: Obj) -> None:
        """Fill in what the user left out (Kubernetes' SetDefaults functions). Runs on every write."""

    def note_requester(self, obj: Obj, user: User) -> None:
        """Record the requesting user in kinds that have fields for it (before `prepare_create`)."""

    def prepare_create(self, obj: Obj) -> Sequence[str] | None:
        """Drop what a user may not set. The status is already gone where `has_status`.

        Returns texts for the client's `Warning` headers, about what cannot be seen in the object afterwards.
        """
        return None

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        """Carry over what this endpoint may not change. The status is already the old one where `has_status`."""

    def validate(self, obj: Obj, errors: Errors) -> None:
        """Add every broken rule. Metadata is checked by the registry before this."""

    def check_new(self, obj: Obj, errors: Errors) -> Sequence[str]:
        """The rules of a new object, and if it breaks none the texts for the client's `Warning` headers."""
        self.validate(obj, errors)
        return [] if errors else self.warnings(obj, None)

    def validate_admitted(self, obj: Obj, errors: Errors) -> None:
        """The rules of an object that another server has let in, and that may keep what the kind lets objects keep."""
        self.validate(obj, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """The rules of a change; `validate` does not run on updates unless this calls it."""
        self.validate(obj, errors)

    def finish_create(self, obj: Obj) -> None:
        """Fill in what follows from `prepare_create`, as the defaults do when the stored object is read back."""

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        """Texts for the client's `Warning` headers."""
        return []

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        """Before a write to the status subresource; everything but status and metadata is already the old one."""

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """The rules of a status."""

    def status_warnings(self, obj: Obj) -> list[str]:
        """Texts for the client's `Warning` headers about a status write."""
        return []

    def grace_period_seconds(self, obj: Obj, asked: int | None) -> int:
        """How long a deletion waits where `deletes_gracefully`; 0 removes the object at once."""
        return 0

    def check_deletion(self, obj: Obj, options: DeleteOptions) -> None:
        """Refuse a DELETE of this object, before preconditions and admission."""

    def mark_deleted(self, obj: Obj) -> None:
        """Change the object when its deletion begins (a namespace becomes Terminating)."""

    def holds_deletion(self, obj: Obj) -> bool:
        """Whether the kind itself keeps the object alive, beyond its finalizers (a namespace's spec.finalizers)."""
        return False
