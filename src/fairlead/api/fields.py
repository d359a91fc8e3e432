"""Field errors: which field, which value, what was expected.

A validator gets an `Errors` list and adds to it; nothing stops at the first error, because a person who
has to fix a manifest wants all of them at once. Texts are those of k8s.io/apimachinery/pkg/util/validation/field.
Paths are plain strings: `spec.containers[0].image`, `metadata.labels[some/key]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.errors import Cause, Causes, Invalid
from fairlead.golang.quoting import go_quote


class Errors(Causes):
    """The field errors found so far, in the order in which they were found."""

    def required(self, path: str, detail: str = "") -> None:
        self._add("FieldValueRequired", "Required value", path, detail)

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self._add_about(value, "FieldValueInvalid", "Invalid value", path, detail)

    def invalid_omitted(self, path: str, detail: str) -> None:
        """`Invalid value: detail`: something is wrong with a whole that is not worth printing."""
        self._add("FieldValueInvalid", "Invalid value", path, detail)

    def not_supported(self, path: str, value: Any, supported: Iterable[str], *, sort: bool = True) -> None:
        """`Unsupported value: "x": supported values: "A", "B"`; listed sorted, as Go lists a set."""
        allowed = ", ".join(quoted(value) for value in (sorted(supported) if sort else supported))
        detail = f"supported values: {allowed}" if allowed else ""
        self._add_about(value, "FieldValueNotSupported", "Unsupported value", path, detail)

    def duplicate(self, path: str, value: Any, detail: str = "") -> None:
        self._add_about(value, "FieldValueDuplicate", "Duplicate value", path, detail)

    def forbidden(self, path: str, detail: str) -> None:
        self._add("FieldValueForbidden", "Forbidden", path, detail)

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        self._add_about(value, "FieldValueNotFound", "Not found", path, detail)

    def too_long(self, path: str, limit: int, unit: str = "bytes") -> None:
        self._add("FieldValueTooLong", "Too long", path, f"may not be more than {limit} {unit}")

    def too_many(self, path: str, actual: int, limit: int) -> None:
        self._add("FieldValueTooMany", f"Too many: {actual}", path, f"must have at most {limit} items")

    def internal(self, path: str, detail: str) -> None:
        self._add("InternalError", "Internal error", path, detail)

    def _add_about(self, value: Any, reason: str, head: str, path: str, detail: str) -> None:
        """A value is quoted only while there is room: some errors quote a whole list, and each item may have one."""
        self._add(reason, f"{head}: {quoted(value)}" if self.has_room else head, path, detail)

    def _add(self, reason: str, head: str, path: str, detail: str) -> None:
        self.append(Cause(reason, f"{head}: {detail}" if detail else head, path))

    def raise_invalid(self, kind: str, name: str, group: str = "") -> None:
        """Raise `Invalid` with everything found, or return if nothing was."""
        if self:
            raise invalid(kind, name, self, group)


def validate_choice(value: str, allowed: Sequence[str], path: str, errors: Errors, missing: str = "") -> None:
    """One of a few words, which are told in the order given; `missing` is what is said where there is none."""
    if not value:
        errors.required(path, missing)
    elif value not in allowed:
        errors.not_supported(path, value, allowed, sort=False)


def invalid(kind: str, name: str, causes: Iterable[Cause], group: str = "") -> Invalid:
    """`Pod "x" is invalid: …`: the text says each thing once, the causes keep repetitions (as upstream's do)."""
    found = Causes(causes)
    message = aggregated(found)
    who = f"{kind}.{group}" if group else kind
    return Invalid(f'{who} "{name}" is invalid: {message}', name=name, group=group, kind=kind, causes=found)


def aggregated(causes: Iterable[Cause]) -> str:
    """All causes in one text (Go's aggregate of errors): each is told once, several in brackets."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


#: How long a path becomes. Keys may be as long as a request, and stand in the path of everything below them.
_LONGEST_PATH: Final = 4096


def under(path: str, step: str) -> str:
    """The path of what is a step below; one that gets too long ends with an ellipsis, wherever it leads."""
    if len(path) + len(step) <= _LONGEST_PATH:
        return path + step
    return path if path.endswith("...") else (path + step)[:_LONGEST_PATH] + "..."


class Word(str):
    """A value of a Go type made for it, like an operator: a field error prints it as JSON, unlike other strings."""

    __slots__ = ()


def quoted(value: Any) -> str:
    """A value as Go's field errors print it: strings quoted, numbers and booleans bare, the rest as JSON."""
    if isinstance(value, str) and not isinstance(value, Word):
        return go_quote(value)
    if value is None:
        return "null"
    plain = str(value) if isinstance(value, Word) else value
    return msgspec.json.encode(plain).decode().translate(HTML)


#: What Go's JSON never shows as it is, lest somebody takes it for HTML.
HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
