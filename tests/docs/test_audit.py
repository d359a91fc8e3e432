"""The policy of docs/audit.md tells of requests what the page says."""

from __future__ import annotations

import re

import pytest

from fairlead.api.users import User
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import Level, Stage
from fairlead.server.audit.policy_file import parse
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "audit.md").read_text()
ME = User("me")


def policy() -> bytes:
    found = re.search(r"^\$ cat policy.yaml\n(.*?)^\$ fairlead", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].encode()


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (AccessRequest(ME, "get", path="/healthz/ping"), Level.NONE),
        (AccessRequest(ME, "get", path="/version"), Level.NONE),
        (AccessRequest(ME, "get", path="/metrics"), Level.METADATA),
        (AccessRequest(ME, "create", "apps", "v1", "deployments", "", "a", "d"), Level.REQUEST),
        (AccessRequest(ME, "get", "apps", "v1", "deployments", "", "a", "d"), Level.METADATA),
        (AccessRequest(ME, "create", "", "v1", "secrets", "", "a", "s"), Level.METADATA),
    ],
)
def test_the_policy_says_what_the_page_says(asked: AccessRequest, level: Level) -> None:
    decision = parse(policy()).decide(asked)
    assert decision.level is level
    assert set(decision.omitted_stages) == {Stage.REQUEST_RECEIVED}
