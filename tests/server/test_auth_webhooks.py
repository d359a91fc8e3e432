"""Services that say who somebody is and what they may do, over real HTTPS (issue 16)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.server.access import AccessRequest, Decision
from fairlead.server.auth.authentication import AuthenticationSettings, TokenWebhookSettings
from fairlead.server.auth.authorization import AuthorizationFile, AuthorizationSettings
from fairlead.server.auth.authorization_configuration import AuthorizerConfiguration, Webhook, parsed
from fairlead.server.auth.webhooks.access import spec_of
from tests.server import http_world
from tests.server.http_world import JSON, SECONDS, check_status, serving_in_a_thread
from tests.server.https_services import Reviewer

PODS = "/api/v1/namespaces/default/pods"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
KNOWN = AuthenticationSettings({"t-jane": User("jane", ("ops",), "7"), "t-joe": User("joe")})


@contextmanager
def reviewing(folder: Path) -> Iterator[Reviewer]:
    folder.mkdir(exist_ok=True)
    made = Reviewer(folder)
    with made.serving():
        yield made


@pytest.fixture
def reviewer(tmp_path: Path) -> Iterator[Reviewer]:
    with reviewing(tmp_path) as made:
        yield made


def ask(server: http_world.Server, token: str, path: str = PODS, method: str = "GET", body: Any = None) -> Any:
    headers = JSON | {"authorization": f"Bearer {token}"}
    return server.ask(method, path, body, headers, server.guarded_port)


def who(server: http_world.Server, token: str) -> http_world.Reply:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found: http_world.Reply = ask(server, token, WHO_AM_I, "POST", review)
    return found


# -- who somebody is


def users(spec: Obj) -> Obj:
    if not spec["token"].startswith("good"):
        return {"authenticated": False, "error": "never heard of it"}
    return {
        "authenticated": True,
        "user": {"username": spec["token"], "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
    }


def by_webhook(reviewer: Reviewer, **more: Any) -> AuthenticationSettings:
    return replace(KNOWN, webhook=TokenWebhookSettings(reviewer.kubeconfig, "v1", **more))


def test_a_service_knows_tokens(reviewer: Reviewer) -> None:
    reviewer.status = users
    with serving_in_a_thread(authentication=by_webhook(reviewer)) as server:
        for _ in range(3):
            info = who(server, "good-1").obj["status"]["userInfo"]
        assert info == {
            "username": "good-1",
            "uid": "1",
            "groups": ["g", "system:authenticated"],
            "extra": {"k": ["v"]},
        }
        (sent,) = reviewer.reviews
        assert (sent["kind"], sent["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
        assert sent["spec"] == {"token": "good-1", "audiences": ["https://kubernetes.default.svc"]}
        assert reviewer.headers["Authorization"] == "Bearer from-fairlead"
        for _ in range(3):
            check_status(who(server, "bad"), 401, "Unauthorized")
        assert len(reviewer.reviews) == 2, "each token is asked about once"
        assert who(server, "t-jane").code == 201
        assert len(reviewer.reviews) == 2, "what is known here is not asked"
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "bad"}}
        status = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).obj["status"]
        assert status == {"user": {}, "error": "[invalid bearer token, never heard of it]"}


def test_a_service_that_fails_is_asked_again(reviewer: Reviewer) -> None:
    reviewer.status, reviewer.code = users, 404
    with serving_in_a_thread(authentication=by_webhook(reviewer)) as server:
        check_status(who(server, "good-1"), 401, "Unauthorized")
        reviewer.code = 200
        assert who(server, "good-1").code == 201
        reviewer.status = lambda spec: "nonsense"
        check_status(who(server, "good-2"), 401, "Unauthorized")
        reviewer.status = lambda spec: {"authenticated": True, "user": {"username": "x" * (1 << 20)}}
        check_status(who(server, "good-3"), 401, "Unauthorized")
        reviewer.status = lambda spec: {"authenticated": True, "user": {"username": "a"}, "audiences": ["other"]}
        check_status(who(server, "good-4"), 401, "Unauthorized")


def test_what_fails_for_the_moment_is_tried_again(reviewer: Reviewer) -> None:
    def recovering(spec: Obj) -> Obj:
        reviewer.code = 200 if len(reviewer.reviews) > 1 else 500
        return users(spec)

    reviewer.status, reviewer.code = recovering, 500
    with serving_in_a_thread(authentication=by_webhook(reviewer)) as server:
        assert who(server, "good-1").code == 201


def test_nobody_waits_for_a_service_that_does_not_answer(reviewer: Reviewer) -> None:
    asked, answer = threading.Event(), threading.Event()

    def before() -> None:
        asked.set()
        answer.wait(SECONDS)

    reviewer.before, reviewer.status = before, users
    with serving_in_a_thread(authentication=by_webhook(reviewer)) as server:
        found: list[int] = []
        waiting = [threading.Thread(target=lambda: found.append(who(server, "good-1").code)) for _ in range(5)]
        for thread in waiting:
            thread.start()
        assert asked.wait(SECONDS)
        assert who(server, "t-jane").code == 201
        answer.set()
        for thread in waiting:
            thread.join(SECONDS)
        assert found == [201] * 5
        assert len(reviewer.reviews) == 1, "those who show one token at once share one call"


def test_answers_are_not_remembered_for_no_time(reviewer: Reviewer) -> None:
    reviewer.status = users
    with serving_in_a_thread(authentication=by_webhook(reviewer, cache_seconds=0.0)) as server:
        for _ in range(2):
            assert who(server, "good-1").code == 201
        assert len(reviewer.reviews) == 2


# -- what somebody may do


def by_modes(reviewer: Reviewer, *modes: str, **more: Any) -> AuthorizationSettings:
    webhook = Webhook(reviewer.kubeconfig, **more)
    return AuthorizationSettings(
        tuple(AuthorizerConfiguration(mode, webhook if mode == "Webhook" else None) for mode in modes)
    )


def jane_alone(spec: Obj) -> Obj:
    return {"allowed": spec["user"] == "jane", "denied": spec["user"] == "joe", "reason": "as I say"}


def test_a_service_allows_and_denies(reviewer: Reviewer) -> None:
    reviewer.status = jane_alone
    with serving_in_a_thread(authentication=KNOWN, authorization=by_modes(reviewer, "Webhook", "RBAC")) as server:
        for _ in range(2):
            assert ask(server, "t-jane").code == 200
        (sent,) = reviewer.reviews
        assert (sent["kind"], sent["apiVersion"]) == ("SubjectAccessReview", "authorization.k8s.io/v1")
        about = {"namespace": "default", "verb": "list", "version": "v1", "resource": "pods"}
        groups = ["ops", "system:authenticated"]
        assert sent["spec"] == {"resourceAttributes": about, "user": "jane", "groups": groups, "uid": "7"}
        assert check_status(ask(server, "t-joe"), 403, "Forbidden").endswith('in the namespace "default": as I say')
        assert check_status(ask(server, "t-joe", "/version"), 403, "Forbidden"), "although the roles allow it"
        reviewer.status = lambda spec: {"allowed": False}
        assert ask(server, "t-jane", "/version").code == 200, "who has no opinion leaves it to the roles"
        spec = {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "secrets"}}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        rules = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "n"}}
        base = "/apis/authorization.k8s.io/v1/"
        assert not server.ask("POST", f"{base}subjectaccessreviews", review).obj["status"]["allowed"]
        told = ask(server, "t-jane", f"{base}selfsubjectrulesreviews", "POST", rules).obj["status"]
        assert told["incomplete"]
        assert told["evaluationError"] == "webhook authorizer does not support user rule resolution"
        before = len(reviewer.reviews)
        assert server.ask("GET", PODS).code == 200, "masters may do everything"
        assert len(reviewer.reviews) == before


def test_the_old_version_names_groups_differently(reviewer: Reviewer) -> None:
    reviewer.status = jane_alone
    settings = by_modes(reviewer, "Webhook", version="v1beta1")
    with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
        assert ask(server, "t-jane").code == 200
        (sent,) = reviewer.reviews
        assert sent["apiVersion"] == "authorization.k8s.io/v1beta1"
        assert sent["spec"]["group"] == ["ops", "system:authenticated"]
        assert "groups" not in sent["spec"]


@pytest.mark.parametrize("on_failure", [Decision.NO_OPINION, Decision.DENY])
def test_a_service_that_fails_counts_as_its_policy_says(reviewer: Reviewer, on_failure: Decision) -> None:
    reviewer.code = 404
    settings = by_modes(reviewer, "Webhook", "RBAC", on_failure=on_failure)
    with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
        assert (ask(server, "t-jane", "/version").code == 200) is (on_failure is Decision.NO_OPINION)
        refused = ask(server, "t-jane", f"{PODS}?limit=1")
        assert refused.code == 500
        why = "the server could not find the requested resource"
        assert refused.body.decode() == f'Internal Server Error: "{PODS}?limit=1": {why}\n'


def test_modes_without_a_service() -> None:
    for mode, code, text in (("AlwaysAllow", 200, ""), ("AlwaysDeny", 403, "Everything is forbidden.")):
        settings = AuthorizationSettings((AuthorizerConfiguration(mode),))
        with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
            reply = ask(server, "t-jane")
            assert reply.code == code
            assert text in reply.body.decode()
            assert server.ask("GET", PODS).code == 200


def test_selectors_are_told_as_requirements() -> None:
    asked = AccessRequest(
        User("u"), "list", resource="pods", field_selector="a=b,c!=d", label_selector="e in (f),!g,h>1"
    )
    assert spec_of(asked)["resourceAttributes"] == {
        "verb": "list",
        "resource": "pods",
        "fieldSelector": {
            "requirements": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "c", "operator": "NotIn", "values": ["d"]},
            ]
        },
        "labelSelector": {
            "requirements": [
                {"key": "e", "operator": "In", "values": ["f"]},
                {"key": "g", "operator": "DoesNotExist"},
            ]
        },
    }
    unreadable = AccessRequest(User("u"), "list", resource="pods", field_selector="a", label_selector="a in")
    assert spec_of(unreadable)["resourceAttributes"] == {"verb": "list", "resource": "pods"}


# -- AuthorizationConfiguration


def webhook(name: str, kubeconfig: Path | str, **more: Any) -> Obj:
    said = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
    }
    return {"type": "Webhook", "name": name, "webhook": said | more}


def document(*authorizers: Obj) -> bytes:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    return yaml.safe_dump(head | {"authorizers": list(authorizers)}).encode()


def conditions(*expressions: str) -> list[Obj]:
    return [{"expression": expression} for expression in expressions]


RBAC = {"type": "RBAC", "name": "rbac"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (document(), "authorizers: Required value: at least one authorization mode must be defined"),
        (document({"name": "a"}), "authorizers[0].type: Required value"),
        (
            document({"type": "Magic", "name": "a"}),
            'authorizers[0].type: Unsupported value: "Magic": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny"',
        ),
        (document(RBAC, RBAC), 'authorizers[1].type: Duplicate value: "RBAC"'),
        (document({"type": "RBAC"}), "authorizers[0].name: Required value"),
        (
            document(RBAC | {"name": "A"}),
            'authorizers[0].name: Invalid value: "A": authorizer name is invalid: a lower',
        ),
        (
            document({"type": "Webhook", "name": "w"}),
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (
            document(RBAC | {"webhook": {}}),
            'authorizers[0].webhook: Invalid value: "non-null": may only be specified when',
        ),
        (document(webhook("w", "/x", timeout="")), "authorizers[0].timeout: "),
        (
            document(webhook("w", "/x", timeout="31s")),
            'authorizers[0].timeout: Invalid value: "31s": must be > 0s and <=',
        ),
        (document(webhook("w", "/x", authorizedTTL="-1s")), 'authorizedTTL: Invalid value: "-1s": must be > 0s'),
        (
            document(webhook("w", "/x", subjectAccessReviewVersion="v2")),
            'Unsupported value: "v2": supported values: "v1"',
        ),
        (document(webhook("w", "/x", failurePolicy="")), "authorizers[0].failurePolicy: Required value"),
        (
            document(webhook("w", "x")),
            'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "x": must be an abs',
        ),
        (document(webhook("w", "/not/there")), "error loading file: stat /not/there: no such file or directory"),
        (document(webhook("w", "/tmp")), 'kubeConfigFile: Invalid value: "/tmp": must be a regular file'),
        (
            document(webhook("w", "/x", matchConditions=conditions("request.user"))),
            'authorizers[0].matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool but',
        ),
        (
            document(webhook("w", "/x", matchConditions=conditions("request.usr == 'a'"))),
            "compilation failed: ERROR: <input>:1:8: undefined field 'usr'",
        ),
        (
            document(
                webhook("w", "/x", matchConditionSubjectAccessReviewVersion="", matchConditions=conditions("true"))
            ),
            "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        (document(webhook("w", "/x", ttl="1s")), 'strict decoding error: unknown field "authorizers[0].webhook.ttl"'),
    ],
)
def test_what_is_wrong_is_refused_in_upstreams_words(data: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parsed(data)
    assert why in str(caught.value)


def test_conditions_say_who_is_asked_about(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.status = jane_alone
    resources = "has(request.resourceAttributes)"
    about = conditions(resources, "request.resourceAttributes.namespace == 'default'", "'ops' in request.groups")
    with reviewing(tmp_path / "second") as second:
        second.status = lambda spec: {"allowed": spec["user"] == "joe"}
        failing = conditions(resources, "request.resourceAttributes.fieldSelector.requirements.size() > 0")
        data = document(
            webhook("first", reviewer.kubeconfig, matchConditions=about),
            webhook("second", second.kubeconfig, matchConditions=failing, failurePolicy="NoOpinion"),
            webhook("third", second.kubeconfig, matchConditions=conditions("request.user == 'joe'")),
            RBAC,
        )
        settings = AuthorizationSettings(parsed(data))
        with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
            assert ask(server, "t-jane").code == 200
            assert len(reviewer.reviews) == 1
            assert ask(server, "t-jane", "/version").code == 200
            assert ask(server, "t-joe").code == 200, "the second fails, which is no opinion; the third allows"
            assert len(reviewer.reviews) == 1
            assert [review["spec"]["user"] for review in second.reviews] == ["joe"]
            assert ask(server, "t-jane", "/api/v1/namespaces/kube-system/pods").code == 500, "the second failed"


def test_a_file_that_changes_counts_anew(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.status = jane_alone
    path = tmp_path / "authorization.yaml"
    path.write_bytes(document(RBAC))
    settings = AuthorizationSettings(parsed(path.read_bytes()), AuthorizationFile(path, path.read_bytes()))
    with serving_in_a_thread(authentication=KNOWN, authorization=settings) as server:
        assert ask(server, "t-jane").code == 403
        path.write_bytes(document(webhook("w", reviewer.kubeconfig), RBAC))
        server.soon(lambda: ask(server, "t-jane").code == 200)
        path.write_bytes(document(RBAC))
        server.soon(lambda: ask(server, "t-jane").code == 403)
