"""What the three patch formats share: reading a body, copying JSON, refusing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from fairlead.api.errors import ApiError, BadRequest, Invalid
from fairlead.api.fields import Errors, invalid
from fairlead.api.objects import Obj
from fairlead.golang.json import decode
from fairlead.golang.json_errors import json_error

T = TypeVar("T")

#: A parser of JSON that raises `ValueError`; the server has one that is as lenient as Go's.
Parse: TypeAlias = Callable[[bytes], Any]

#: What decoding in Go aims at: the name appears in messages.
ANY_MAP: Final = "map[string]interface {}"


class PatchDoesNotApply(Invalid):
    """422 without a word about the reason: upstream drops it from its generic answer."""

    #: Go's words for it, which are told where a webhook sent the patch.
    why = ""

    def __init__(self) -> None:
        super().__init__("the server rejected our request due to an error in our request")

    def status(self) -> Obj:
        return super().status() | {"details": {}}


class PatchFailed(ApiError):
    """500 without a reason: upstream's answer when a strategic merge goes wrong in a way it has no code for."""

    code, reason = 500, ""

    def __init__(self, message: str, *, why: str = "") -> None:
        """`why`: the message without what it quotes of the patch, if it quotes anything."""
        super().__init__(message)
        self.why = why or message


def undecodable(shown: str, why: str) -> Invalid:
    """422 for a patched object that cannot be read; quotes the object as JSON, or a strategic patch as Go prints it."""
    errors = Errors()
    errors.invalid("patch", shown, why)
    return invalid("", "", errors)


encode = msgspec.json.Encoder().encode


def read(body: bytes, parse: Parse | None, prefix: str = "") -> Any:
    """The JSON value of a body; `prefix` goes before Go's complaint if it is none."""
    try:
        return (parse or decode)(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(prefix + (json_error(body) or str(error))) from None


def size_of(value: Any) -> int:
    return len(encode(value))
