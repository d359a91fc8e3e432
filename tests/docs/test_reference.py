"""The documentation says what the code does: the reference is generated, and every plugin and flag is in it."""

from __future__ import annotations

from docs.build import CRDS, REFERENCE, RIGHTS, crds, reference, rights


def test_the_reference_is_that_of_this_code() -> None:
    assert REFERENCE.read_text() == reference(), "run: python -m docs.build"


def test_the_arbitrators_kinds_to_apply_are_those_of_this_code() -> None:
    assert CRDS.read_text() == crds(), "run: python -m docs.build"
    assert RIGHTS.read_text() == rights(), "run: python -m docs.build"
