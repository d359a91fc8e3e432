"""Whoever asks for something that is stored and not done is told so, and the documentation lists all of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from fairlead.server.admission import unenforced
from tests.server.http_world import Server, serving_in_a_thread

COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"

#: Path, what the object says, and what of it is not done.
OBJECTS = [
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c.example.com"}}]}}},
        "CLAIMS",
    ),
]


_NUMBERS = count()


def fresh() -> str:
    return f"u{next(_NUMBERS)}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        yield running


@pytest.mark.parametrize(("path", "fields", "lack"), OBJECTS, ids=lambda value: str(value).rpartition("/")[2][:30])
def test_a_guard_that_is_not_enforced_is_stored_with_a_warning(
    server: Server, path: str, fields: dict[str, dict[str, object]], lack: str
) -> None:
    name = fresh()
    reply = server.ask("POST", path, {**fields, "metadata": {**fields.get("metadata", {}), "name": name}})
    assert (reply.code, [text for text in reply.warnings if getattr(unenforced, lack) in text]) == (201, reply.warnings)
    assert len(reply.warnings) == 1
    stored = server.ask("GET", f"{path}/{name}")
    again = server.ask("PUT", f"{path}/{name}", stored.body)
    assert again.warnings == reply.warnings


def test_what_asks_for_nothing_is_no_reason_to_warn(server: Server) -> None:
    assert server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": fresh()}}).warnings == []


def test_everything_that_is_not_done_is_in_the_documentation() -> None:
    text = " ".join(COMPATIBILITY.read_text().split())
    for name, value in vars(unenforced).items():
        if name.isupper() and not name.startswith("_"):
            assert value in text, f"docs/compatibility.md does not say: {value}"
