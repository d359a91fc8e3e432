"""Pull secrets are tried for those images that the kubelet would try them for."""

from __future__ import annotations

import base64
import json

import pytest

from fairlead.agent.images.credentials import keyring
from fairlead.agent.images.references import parse


def users(auths: dict[str, object], image: str) -> list[str]:
    ring = keyring([json.dumps({"auths": auths}).encode()])
    return [credential.username for credential in ring.lookup(parse(image))]


def login(username: str) -> dict[str, str]:
    return {"username": username, "password": "secret"}


@pytest.mark.parametrize(
    ("place", "image", "matches"),
    [
        ("registry.io", "registry.io/a/b", True),
        ("https://registry.io", "registry.io/a/b", True),
        ("https://registry.io/v2/", "registry.io/a/b", True),
        ("registry.io/a", "registry.io/a/b", True),
        ("registry.io/a/c", "registry.io/a/b", False),
        ("registry.io:5000", "registry.io/a", False),
        ("registry.io:5000", "registry.io:5000/a", True),
        ("*.registry.io", "eu.registry.io/a", True),
        ("*.registry.io", "a.eu.registry.io/a", False),
        ("reg*.io", "registry.io/a", True),
        ("registry.io", "registry.io.evil.com/a", False),
        ("https://index.docker.io/v1/", "nginx", True),
        ("docker.io", "nginx", True),
        ("docker.io/library", "nginx", True),
        ("https://index.docker.io/v1/", "registry.io/nginx", False),
    ],
)
def test_host_and_path_decide(place: str, image: str, matches: bool) -> None:
    assert users({place: login("me")}, image) == (["me"] if matches else [])


def test_the_longest_path_comes_first_and_the_others_are_tried_too() -> None:
    auths: dict[str, object] = {"r.io": login("all"), "r.io/team": login("team"), "r.io/team/app": login("app")}
    assert users(auths, "r.io/team/app") == ["app", "team", "all"]


def test_auth_is_user_and_password_in_base64_and_wins() -> None:
    auth = base64.b64encode(b"me:pass:word").decode()
    ring = keyring([json.dumps({"auths": {"r.io": {"auth": auth, "username": "other"}}}).encode()])
    (credential,) = ring.lookup(parse("r.io/a"))
    assert (credential.username, credential.password) == ("me", "pass:word")


def test_the_old_form_of_secrets_is_read() -> None:
    ring = keyring(legacy_configs=[json.dumps({"https://r.io": login("old")}).encode()])
    assert [credential.username for credential in ring.lookup(parse("r.io/a"))] == ["old"]


@pytest.mark.parametrize(
    "document", [b"", b"[]", b'{"auths": {"\xff": {}}}', b'{"auths": {"r.io": {"auth": "%%%"}}}', b'{"auths": []}']
)
def test_a_damaged_secret_is_said_to_be(document: bytes) -> None:
    with pytest.raises(ValueError, match="pull secret"):
        keyring([document])
