"""The circumstances of a request: who asks, how, and what is said back to them beside the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.users import INTERNAL_USER, User
from fairlead.api.verbs import PatchType, WriteOptions
from fairlead.golang.yaml import warnings_of
from fairlead.server.codec.versions import Version

#: Makes the object that a client wants from the one that there is, both in the version that the client speaks.
Wish = Callable[[Obj], Obj]


@dataclass(slots=True)
class Caller:
    """Who makes a request. The default is Fairlead's own components."""

    user: User = INTERNAL_USER
    warnings: list[str] = field(default_factory=list)
    #: What decoding the body already objected to (duplicate fields); judged together with unknown fields.
    strict_errors: list[str] = field(default_factory=list)
    #: What decoding the configuration of an apply said about keys that come twice; judged after the merge.
    repeated_keys: list[str] = field(default_factory=list)
    #: Whether an apply made the object.
    created: bool = False
    #: Whether what was deleted is still there: finalizers or a grace period keep it.
    lingers: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """The patch behind a wish, for what has to be said about it."""

    body: Any
    type: PatchType


@dataclass(frozen=True, slots=True)
class Write:
    """One write: what the client said beside the object itself."""

    options: WriteOptions
    caller: Caller
    version: Version
    subresource: str = ""
    patch: Patch | None = None

    @property
    def is_apply(self) -> bool:
        return self.patch is not None and self.patch.type is PatchType.APPLY

    @property
    def is_tracked(self) -> bool:
        """Whether metadata.managedFields notes who wrote what: for clients, not for Fairlead's own components.

        Their entries would double every pod and its cost, to say that a node agent owns the status.
        """
        return self.caller.user is not INTERNAL_USER

    def judge(self, unknown: list[str], kind: str, version: str) -> None:
        """Refuse, warn of, or ignore what the body held too much, as `fieldValidation` asks."""
        problems = [*self.caller.strict_errors, *unknown]
        if not problems:
            return
        if self.options.field_validation == "Strict":
            said = ", ".join(problems)
            raise BadRequest(
                f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {said}'
            )
        if self.options.field_validation == "Warn":
            self.caller.warnings.extend(line for problem in problems for line in warnings_of(problem))
