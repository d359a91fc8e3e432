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
    """Other managers own what an apply would change: the managers, and the fields of each."""

    def __init__(self, conflicts: Mapping[Identity, Fields]) -> None:
        super().__init__()
        self.conflicts = conflicts

    def refusal(self) -> Conflict:
        """The refusal for the client."""
        lost = {
            manager: [spelled(path) for path in paths(self.conflicts[manager])] for manager in sorted(self.conflicts)
        }
        causes = [
            Cause(_REASON, f"conflict with {_manager_text(manager)}", path)
            for manager, fields in lost.items()
            for path in fields
        ]
        return Conflict(_message(lost, len(causes)), causes=causes)


def _message(lost: Mapping[Identity, list[str]], count: int) -> str:
    if count == 1:
        ((manager, (path,)),) = lost.items()
        return f"Apply failed with 1 conflict: conflict with {_manager_text(manager)}: {path}"
    lines = []
    for manager, fields in lost.items():
        lines.append(f"conflicts with {_manager_text(manager)}:")
        lines += [f"- {path}" for path in fields]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _manager_text(manager: Identity) -> str:
    """`"scaler" with subresource "scale" using apps/v1`."""
    text = go_quote(manager.manager)
    if manager.subresource:
        text += f" with subresource {go_quote(manager.subresource)}"
    if manager.operation == UPDATE:
        text += f" using {manager.api_version}"
    return text
