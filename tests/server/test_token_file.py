"""Tokens that an operator wrote into a file, and clients that show nothing (issue 16)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.golang import csv
from fairlead.server.auth import token_file
from fairlead.server.auth.authentication import AnonymousAccess, AuthenticationSettings
from tests.server import http_world
from tests.server.http_world import JSON, check_status, serving_in_a_thread

FILE = """token1,user1,uid1
token2,user2,uid2

"token ""3""\",user3,uid3,"group1,group2"\r
,nobody,uid4
"""
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def write(folder: Path, text: str) -> Path:
    path = folder / "tokens.csv"
    path.write_bytes(text.encode())
    return path


def test_a_file_has_a_user_in_each_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, FILE)
    assert token_file.load(path) == {
        "token1": User("user1", (), "uid1"),
        "token2": User("user2", (), "uid2"),
        'token "3"': User("user3", ("group1", "group2"), "uid3"),
    }
    assert f"empty token has been found in token file '{path}', record number '4'" in caplog.text


def test_names_that_are_not_utf8_are_those_that_json_shows(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"token,us\xe9r,\xff,a\xfe")
    assert token_file.load(path) == {"token": User("us\ufffdr", ("a\ufffd",), "\ufffd")}


def test_a_record_without_a_uid_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,c\na,b\n")
    with pytest.raises(ValueError, match=r"must have at least 3 columns \(token, user name, user uid\), found 2"):
        token_file.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('a,b"c', 'parse error on line 1, column 4: bare " in non-quoted field'),
        ('x\nä,"b"c', 'parse error on line 2, column 6: extraneous or missing " in quoted-field'),
        ('"a\nb', 'record on line 1; parse error on line 2, column 2: extraneous or missing " in quoted-field'),
        ('"a', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
    ],
)
def test_what_is_no_csv_is_refused_as_go_does(text: str, why: str) -> None:
    with pytest.raises(csv.CsvError) as caught:
        list(csv.records(text))
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a,,b\n\r\nc", [["a", "", "b"], ["c"]]),
        ('"a\r\nb",c\r\n', [["a\nb", "c"]]),
        ('""\n,', [[""], ["", ""]]),
        ('a,"b"', [["a", "b"]]),
        ("a\r", [["a"]]),
    ],
)
def test_records_are_those_of_go(text: str, expected: list[list[str]]) -> None:
    assert list(csv.records(text)) == expected


@pytest.fixture(scope="module")
def server() -> Iterator[http_world.Server]:
    known = {"s3cret": User("jane", ("ops",), "42"), "böse": User("b")}
    settings = AuthenticationSettings(known, anonymous=AnonymousAccess(frozenset({"/livez", "/readyz", "/healthz"})))
    with serving_in_a_thread(authentication=settings) as running:
        yield running


def ask(server: http_world.Server, path: str, authorization: str | None = None, body: Any = None) -> http_world.Reply:
    headers = JSON | ({"authorization": authorization} if authorization is not None else {})
    return server.ask("POST" if body else "GET", path, body, headers, server.guarded_port)


def who(server: http_world.Server, authorization: str) -> Obj:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found: Obj = ask(server, WHO_AM_I, authorization, review).obj["status"]["userInfo"]
    return found


def test_a_token_of_the_file_logs_in(server: http_world.Server) -> None:
    expected = {"username": "jane", "uid": "42", "groups": ["ops", "system:authenticated"]}
    assert who(server, "Bearer s3cret") == expected
    assert who(server, "  bearer s3cret and more") == expected, "Go looks at the first two words"
    for wrong in ("Bearer s3cre", "Bearer s3cret2", "Bearer S3CRET", "Bearer " + "x" * 100_000):
        check_status(ask(server, "/api", wrong), 401, "Unauthorized")


def test_a_review_knows_it_where_it_is_for_the_server(server: http_world.Server) -> None:
    def review(**spec: Any) -> Obj:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "s3cret", **spec}}
        found: Obj = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body).obj["status"]
        return found

    assert review()["user"]["username"] == "jane"
    issuer = "https://kubernetes.default.svc"
    assert review(audiences=["vault", issuer])["audiences"] == [issuer]
    assert not review(audiences=["vault"]).get("authenticated")


def test_who_shows_nothing_may_ask_for_health_alone(server: http_world.Server) -> None:
    for path in ("/livez", "/readyz", "/healthz", "/livez?verbose"):
        assert ask(server, path).code == 200, path
    assert ask(server, "/livez", "Basic eDp5").code == 200, "another scheme is no bearer token"
    for path in ("/livez/ping", "/version", "/api/v1/pods", "/"):
        check_status(ask(server, path), 401, "Unauthorized")
    check_status(ask(server, "/livez", "Bearer wrong"), 401, "Unauthorized")


def test_anonymous_users_may_what_roles_give_them() -> None:
    with serving_in_a_thread(authentication=AuthenticationSettings(anonymous=AnonymousAccess())) as server:
        assert ask(server, "/version").code == 200
        text = check_status(ask(server, "/api/v1/namespaces/default/pods"), 403, "Forbidden")
        assert text.startswith('pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""')
