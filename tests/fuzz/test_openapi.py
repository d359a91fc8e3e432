"""Requests made from the OpenAPI that we serve, sensible and not: none may end in a bug, a hang or a leak.

Operations are taken in an order drawn from a seed until the time is over. Ask for more by the environment:
`FAIRLEAD_FUZZ_SECONDS=3600 FAIRLEAD_FUZZ_EXAMPLES=50 FAIRLEAD_FUZZ_SEED=7 pytest -n 0 -m slow tests/fuzz`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from time import monotonic
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from fairlead.runtime.http.listener import LOOPBACK_ADDRESS
from tests.server.http_world import Server, serving_in_a_thread, uncomplaining

SECONDS = float(os.environ.get("FAIRLEAD_FUZZ_SECONDS", "15"))
EXAMPLES = int(os.environ.get("FAIRLEAD_FUZZ_EXAMPLES", "2"))
SEED = int(os.environ.get("FAIRLEAD_FUZZ_SEED", "1"))
#: So many operations, however slow the machine is.
AT_LEAST = 10
#: No answer takes longer, watches without an end aside; those are asked to end at once.
PATIENCE_SECONDS = 10.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        yield running


def documents(server: Server) -> list[str]:
    """The paths of the OpenAPI documents, in an order of the seed."""
    found = sorted(path for path in server.ask("GET", "/openapi/v3").obj["paths"] if path.startswith("api"))
    Random(SEED).shuffle(found)
    return found


def check(server: Server, operation: Any) -> None:
    """Send some requests of one operation."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        if operation.method.upper() == "GET":
            case.query = {**(case.query or {}), "timeoutSeconds": 1}
        answer = case.call(base_url=f"http://{LOOPBACK_ADDRESS}:{server.port}", timeout=PATIENCE_SECONDS)
        assert "see the server's log" not in answer.text, case.as_curl_command()

    send()


def operations(server: Server) -> Iterator[Any]:
    for path in documents(server):
        described = schemathesis.openapi.from_dict(server.ask("GET", f"/openapi/v3/{path}").obj)
        for found in described.get_all_operations():
            yield found.ok()


@pytest.mark.slow
def test_no_operation_ends_in_a_bug(server: Server) -> None:
    ends = monotonic() + SECONDS
    with uncomplaining():
        for checked, operation in enumerate(operations(server)):
            if checked >= AT_LEAST and monotonic() > ends:
                break
            check(server, operation)
    assert server.ask("GET", "/readyz").body == b"ok"
