"""Authorization by attributes: what the policies of a file allow, and whom (issue 16)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.users import AUTHENTICATED, User
from fairlead.server.access import AccessRequest, Decision
from fairlead.server.auth.abac import AbacAuthorizer, load
from fairlead.server.auth.authentication import AuthenticationSettings
from fairlead.server.auth.authorization import AuthorizationFile, AuthorizationSettings
from fairlead.server.auth.authorization_configuration import AuthorizerConfiguration
from tests.server.http_world import CONFIG_MAPS, JSON, Reply, Server, check_status, serving_in_a_thread

JANE = User("jane", ("dev", AUTHENTICATED))
NOBODY = User("system:anonymous", ("system:unauthenticated",))
ALL = {"namespace": "*", "resource": "*", "apiGroup": "*", "nonResourcePath": "*"}


def policy(**spec: Any) -> str:
    return json.dumps({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})


def authorizer(folder: Path, *lines: str) -> AbacAuthorizer:
    file = folder / "policies"
    file.write_text("\n".join(lines))
    return AbacAuthorizer(load(file))


def pods(verb: str = "get", namespace: str = "shop", user: User = JANE, **more: str) -> AccessRequest:
    return AccessRequest(user, verb, resource="pods", namespace=namespace, **more)


def path(path_: str, verb: str = "get", user: User = JANE) -> AccessRequest:
    return AccessRequest(user, verb, path=path_)


@pytest.mark.parametrize(
    ("spec", "asked", "is_allowed"),
    [
        # whom
        (ALL, pods(), False),
        (ALL | {"user": "jane"}, pods(), True),
        (ALL | {"user": "joe"}, pods(), False),
        (ALL | {"group": "dev"}, pods(), True),
        (ALL | {"group": "ops"}, pods(), False),
        (ALL | {"user": "jane", "group": "dev"}, pods(), True),
        (ALL | {"user": "jane", "group": "ops"}, pods(), False),
        (ALL | {"user": "joe", "group": "dev"}, pods(), False),
        (ALL | {"user": "*"}, pods(), True),
        (ALL | {"group": "*"}, pods(), True),
        (ALL | {"user": "joe", "group": "*"}, pods(), True),
        (ALL | {"user": "*"}, pods(user=NOBODY), False),
        (ALL | {"group": "system:unauthenticated"}, pods(user=NOBODY), True),
        # which verbs
        (ALL | {"user": "jane", "readonly": True}, pods("watch"), True),
        (ALL | {"user": "jane", "readonly": True}, pods("delete"), False),
        (ALL | {"user": "jane", "readonly": True}, path("/version"), True),
        (ALL | {"user": "jane", "readonly": True}, path("/version", "post"), False),
        # which objects
        ({"user": "jane", "namespace": "shop", "resource": "pods"}, pods(), True),
        ({"user": "jane", "namespace": "shop", "resource": "pods"}, pods(subresource="exec"), True),
        ({"user": "jane", "namespace": "shop", "resource": "pods"}, pods(namespace="bank"), False),
        ({"user": "jane", "namespace": "shop", "resource": "pods"}, pods(group="metrics.k8s.io"), False),
        ({"user": "jane", "namespace": "shop", "resource": "pods", "apiGroup": "*"}, pods(group="x"), True),
        ({"user": "jane", "namespace": "shop"}, pods(), False),
        ({"user": "jane", "resource": "pods"}, pods(), False),
        ({"user": "jane", "resource": "pods"}, pods(namespace=""), True),
        # which paths
        ({"user": "jane", "nonResourcePath": "/logs/*"}, path("/logs/a"), True),
        ({"user": "jane", "nonResourcePath": "/logs/*"}, path("/logs"), False),
        ({"user": "jane", "nonResourcePath": "/logs**"}, path("/logsx"), True),
        ({"user": "jane", "nonResourcePath": "/version"}, path("/version"), True),
        ({"user": "jane", "nonResourcePath": "/version"}, path("/version/"), False),
        ({"user": "jane", "nonResourcePath": "*"}, pods(), False),
        ({"user": "jane", "namespace": "*", "resource": "*", "apiGroup": "*"}, path("/version"), False),
    ],
)
def test_what_a_policy_allows(tmp_path: Path, spec: Any, asked: AccessRequest, is_allowed: bool) -> None:
    verdict = authorizer(tmp_path, policy(**spec)).decide(asked)
    if is_allowed:
        assert (verdict.decision, verdict.reason) == (Decision.ALLOW, "")
    else:
        assert (verdict.decision, verdict.reason) == (Decision.NO_OPINION, "No policy matched.")


@pytest.mark.parametrize(
    ("line", "asked", "is_allowed"),
    [
        ("{}", pods("delete"), True),
        ("{}", path("/version", "post"), True),
        ("{}", pods(user=NOBODY), False),
        ('{"user": "jane"}', pods(), True),
        ('{"user": "joe"}', pods(), False),
        ('{"group": "*"}', pods(), True),
        ('{"user": "jane", "readonly": true}', pods("create"), False),
        ('{"user": "jane", "resource": "pods"}', pods(group="any"), True),
        ('{"user": "jane", "resource": "pods"}', path("/version"), False),
        ('{"user": "jane", "namespace": "bank"}', pods(), False),
    ],
)
def test_what_policies_from_before_versions_allow(
    tmp_path: Path, line: str, asked: AccessRequest, is_allowed: bool
) -> None:
    assert authorizer(tmp_path, line).decide(asked).is_allowed is is_allowed


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"apiVersion": "v1", "kind": "Pod"}', 'no kind "Pod" is registered for version "v1"'),
        (policy(user=3), "cannot unmarshal number into Go struct field PolicySpec.spec.user of type string"),
        (policy(readonly="yes"), "cannot unmarshal string into Go struct field PolicySpec.spec.readonly of type bool"),
        ("[]", "json: cannot unmarshal array into Go value"),
        ("{", "line 3: {: "),
        ("x" * (1 << 16), "bufio.Scanner: token too long"),
    ],
)
def test_a_line_that_is_no_policy_is_named(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        authorizer(tmp_path, "# comment", policy(**ALL), line)
    assert str(caught.value).startswith(f"error reading policy file {tmp_path / 'policies'}")
    assert why in str(caught.value)


def ask(server: Server, token: str, method: str, path_: str, body: Any = None) -> Reply:
    return server.ask(method, path_, body, JSON | {"authorization": f"Bearer {token}"}, server.guarded_port)


KNOWN = AuthenticationSettings({"t-jane": User("jane"), "t-joe": User("joe")})
MODES = (AuthorizerConfiguration("ABAC"), AuthorizerConfiguration("RBAC"))


def test_a_server_decides_by_the_file_and_by_what_comes_after_it(tmp_path: Path) -> None:
    file = tmp_path / "policies"
    lines = [policy(user="jane", namespace="default", resource="configmaps"), policy(user="joe", **ALL, readonly=True)]
    file.write_text("\n".join(lines))
    settings = AuthorizationSettings(MODES, policies=load(file))
    with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
        assert ask(server, "t-jane", "POST", CONFIG_MAPS, {"metadata": {"name": "c"}}).code == 201
        reply = ask(server, "t-joe", "DELETE", f"{CONFIG_MAPS}/c")
        check_status(reply, 403, "Forbidden")
        assert reply.obj["message"].endswith('in the namespace "default": No policy matched.')
        assert ask(server, "t-joe", "GET", f"{CONFIG_MAPS}/c").code == 200
        assert ask(server, "t-jane", "GET", "/version").code == 200, "RBAC lets everybody who is known"
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
        found = ask(
            server,
            "t-jane",
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            review | {"spec": {"namespace": "default"}},
        )
        rule = {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}
        assert found.obj["status"]["resourceRules"][0] == rule


def test_a_file_of_authorizers_cannot_bring_policies_that_were_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
    file = tmp_path / "authorization.yaml"
    file.write_text(f"{head}- {{type: RBAC, name: rbac}}\n")
    settings = AuthorizationSettings((AuthorizerConfiguration("RBAC"),), AuthorizationFile(file, file.read_bytes()))
    with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
        check_status(ask(server, "t-jane", "GET", CONFIG_MAPS), 403, "Forbidden")
        file.write_text(f"{head}- {{type: ABAC, name: abac}}\n")
        server.soon(lambda: "authorization policy file not passed" in caplog.text)
        check_status(ask(server, "t-jane", "GET", CONFIG_MAPS), 403, "Forbidden")
        file.write_text(f"{head}- {{type: AlwaysAllow, name: all}}\n")
        server.soon(lambda: ask(server, "t-jane", "GET", CONFIG_MAPS).code == 200)
