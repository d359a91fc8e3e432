"""The refusal of an apply that would change what others own.

Source: apimachinery `util/managedfields/internal/conflict.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.errors import Cause, Conflict
from fairlead.golang.quoting import go_quote
from fairlead.server.apply.entries import UPDATE, Identity
from fairlead.server.apply.fieldsets import Fields, paths, spelled

_REASON = "FieldManagerConflict"


class ApplyConflict(Exception):
    """Others own what an apply would change: who, and which fields."""

    def __init__(self, conflicts: Mapping[Identity, Fields]) -> None:
        super().__init__()
        self.conflicts = conflicts

    def refusal(self) -> Conflict:
        """As the client is told."""
        lost = {who: [spelled(path) for path in paths(self.conflicts[who])] for who in sorted(self.conflicts)}
        causes = [Cause(_REASON, f"conflict with {_told(who)}", path) for who, these in lost.items() for path in these]
        return Conflict(_message(lost, len(causes)), causes=causes)


def _message(lost: Mapping[Identity, list[str]], count: int) -> str:
    if count == 1:
        ((who, (path,)),) = lost.items()
        return f"Apply failed with 1 conflict: conflict with {_told(who)}: {path}"
    lines = []
    for who, these in lost.items():
        lines.append(f"conflicts with {_told(who)}:")
        lines += [f"- {path}" for path in these]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _told(who: Identity) -> str:
    """`"scaler" with subresource "scale" using apps/v1`."""
    text = go_quote(who.manager)
    if who.subresource:
        text += f" with subresource {go_quote(who.subresource)}"
    if who.operation == UPDATE:
        text += f" using {who.api_version}"
    return text
