"""`$(NAME)` in commands and variables, read as Go does (third_party/forked/golang/expansion)."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.pods.environment import expanded

_KNOWN = {"A": "1", "B": "$(A)", "": "nothing"}


def _plainly(text: str, variables: Mapping[str, str]) -> str:
    found, at = "", 0
    while at < len(text):
        rest = text[at:]
        if rest.startswith("$$"):
            found, at = found + "$", at + 2
        elif rest.startswith("$(") and ")" in rest:
            whole = rest[: rest.index(")") + 1]
            found, at = found + variables.get(whole[2:-1], whole), at + len(whole)
        else:
            found, at = found + text[at], at + 1
    return found


@given(st.text("$()AB ", max_size=30))
def test_references_are_replaced_as_they_are_read(text: str) -> None:
    assert expanded(text, _KNOWN) == _plainly(text, _KNOWN)


def test_references_that_never_end_are_read_once() -> None:
    """A command of half a megabyte held the agent for hours: from each it looked for the end."""
    text = "$(" * 60_000
    assert expanded(text, _KNOWN) == text
    assert expanded(f"$(A){text}", _KNOWN) == f"1{text}"
