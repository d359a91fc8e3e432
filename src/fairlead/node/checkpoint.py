"""The files in which the managers of a kubelet keep who has what: JSON with the name of the policy and a checksum.

Source: pkg/kubelet/checkpointmanager, and `state_checkpoint.go` of its users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fairlead.golang.json_errors import json_error
from fairlead.golang.quoting import go_quote

_CORRUPT: Final = "checkpoint is corrupted"


class Checkpoint(Protocol):
    """What all of them have."""

    policy_name: str
    entries: Any
    checksum: int


C = TypeVar("C", bound=Checkpoint)


def encoded(kept: C, printed: Callable[[C], str]) -> bytes:
    """The file, with its checksum. `printed`: the structure as a kubelet prints it for that."""
    kept.checksum = _fnv1a(printed(kept))
    found: Mapping[str, Any] = msgspec.to_builtins(kept, str_keys=True)
    return msgspec.json.encode({key: value for key, value in found.items() if key != "entries" or value})


def decoded(text: bytes, kind: type[C], printed: Callable[[C], str], policy: str, manager: str = "") -> C:
    """What the file says; ValueError, in a kubelet's words, for what it would not go on with. Some begin with the name
    of the manager if the policy is another one.
    """
    if (problem := json_error(text)) is not None:
        raise ValueError(problem)
    try:
        kept = msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        raise ValueError(_CORRUPT) from None
    if kept.checksum and kept.checksum != _fnv1a(printed(kept)):  # files of old kubelets have none
        raise ValueError(_CORRUPT)
    if kept.policy_name != policy:
        configured = f"{manager}configured policy {go_quote(policy)}"
        raise ValueError(f"{configured} differs from state checkpoint policy {go_quote(kept.policy_name)}")
    return kept


def _fnv1a(text: str) -> int:
    found = 0x811C9DC5
    for byte in text.encode():
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found
