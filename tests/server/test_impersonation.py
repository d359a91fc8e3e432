"""Acting as somebody else: what the headers say, and who may (issue 16; KEP-5284)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fairlead.api.errors import BadRequest, Forbidden
from fairlead.api.users import AUTHENTICATED, MASTERS, User
from fairlead.server.access import NO_OPINION, AccessRequest, Decision, Verdict
from fairlead.server.auth.authorizer import Authorizers, LocalAuthorizer
from fairlead.server.auth.impersonation import impersonated, wanted_user
from tests.server.http_world import CONFIG_MAPS, Server

ROOT = User("root", (MASTERS,))
BOB = User("bob", (AUTHENTICATED,))
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Permissions(LocalAuthorizer):
    """Allows (verb, resource, name)."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self._allowed = set(allowed)

    def decide(self, request: AccessRequest) -> Verdict:
        resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
        is_allowed = (request.verb, resource, request.name) in self._allowed
        return Verdict(Decision.ALLOW) if is_allowed else NO_OPINION


def acting(requester: User, wanted: User, *allowed: tuple[str, str, str]) -> User:
    request = AccessRequest(requester, "list", "", "v1", "pods", namespace="a")
    return asyncio.run(impersonated(Authorizers([("", Permissions(*allowed))]), request, wanted))[0]


def refusal(requester: User, wanted: User, *allowed: tuple[str, str, str]) -> str:
    with pytest.raises(Forbidden) as caught:
        acting(requester, wanted, *allowed)
    return caught.value.message


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    running.start()
    yield running
    running.stop()


def test_headers_say_whom_a_client_wants_to_be() -> None:
    headers = [
        (b"impersonate-user", b"jane"),
        (b"impersonate-group", b"a"),
        (b"impersonate-group", b"b"),
        (b"impersonate-uid", b"7"),
        (b"impersonate-extra-acme.com%2fproject", b"x"),
        (b"impersonate-extra-acme.com%2fproject", b"y"),
    ]
    assert wanted_user(headers) == User("jane", ("a", "b"), "7", (("acme.com/project", ("x", "y")),))
    assert wanted_user([(b"accept", b"*/*")]) is None


@pytest.mark.parametrize("header", [b"impersonate-group", b"impersonate-uid", b"impersonate-extra-x"])
def test_nobody_acts_as_a_group_alone(header: bytes) -> None:
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        wanted_user([(header, b"x")])


def test_the_old_permission_is_enough() -> None:
    user = acting(BOB, User("jane", ("ops",)), ("impersonate", "users", "jane"), ("impersonate", "groups", "ops"))
    assert user == User("jane", ("ops", AUTHENTICATED))


def test_every_part_of_a_user_needs_its_own_permission() -> None:
    allowed = ("impersonate", "users", "jane")
    refusal(BOB, User("jane", ("ops",)), allowed)
    refusal(BOB, User("jane", uid="7"), allowed)
    refusal(BOB, User("jane", extra=(("acme.com/p", ("x",)),)), allowed)


def test_a_narrow_permission_needs_both_halves() -> None:
    on, whom = ("impersonate-on:user-info:list", "pods", ""), ("impersonate:user-info", "users", "jane")
    assert acting(BOB, User("jane"), on, whom) == User("jane", (AUTHENTICATED,))
    refusal(BOB, User("jane"), on)
    text = 'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group ""'
    assert refusal(BOB, User("jane"), whom) == f'{text} in the namespace "a"'


def test_the_masters_cannot_be_joined_by_a_narrow_permission() -> None:
    allowed = [
        ("impersonate-on:user-info:list", "pods", ""),
        ("impersonate:user-info", "users", "jane"),
        ("impersonate:user-info", "groups", MASTERS),
    ]
    assert "impersonating the system:masters group is not allowed" in refusal(BOB, User("jane", (MASTERS,)), *allowed)


def test_service_accounts_and_nodes_bring_their_groups() -> None:
    account = acting(ROOT, User("system:serviceaccount:a:bot"))
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED)
    assert acting(ROOT, User("system:node:n1")).groups == ("system:nodes", AUTHENTICATED)


def test_a_service_account_may_act_as_the_node_it_is_on() -> None:
    extra = (("authentication.kubernetes.io/node-name", ("n1",)),)
    agent = User("system:serviceaccount:a:agent", extra=extra)
    allowed = [
        ("impersonate-on:associated-node:list", "pods", ""),
        ("impersonate:associated-node", "nodes", "*"),
    ]
    assert acting(agent, User("system:node:n1"), *allowed).groups == ("system:nodes", AUTHENTICATED)
    refusal(agent, User("system:node:n2"), *allowed)


def test_unknown_users_are_in_the_group_of_the_unknown() -> None:
    assert acting(ROOT, User("system:anonymous")).groups == ("system:unauthenticated",)


def test_a_client_acts_as_somebody_who_may_do_nothing(server: Server) -> None:
    headers = {"impersonate-user": "jane", "impersonate-extra-reason": "audit"}
    reply = server.ask("GET", CONFIG_MAPS, headers=headers)
    text = 'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace'
    assert (reply.code, reply.obj["message"]) == (403, f'{text} "default"')
    reply = server.ask("GET", "/metrics", headers=headers)
    assert (reply.code, reply.obj["details"]) == (403, {})
    assert reply.obj["message"] == 'forbidden: User "jane" cannot get path "/metrics"'


@pytest.mark.parametrize(
    ("path", "verb", "name"),
    [
        ("/api/v1/namespaces/x", "get", '"x"'),
        ("/api/v1/pods?watch=1", "watch", ""),
        ("/api/v1/pods?fieldSelector=metadata.name%3Da", "list", '"a"'),
        ("/api/v1/nodes/n/proxy/metrics", "get", '"n"'),
    ],
)
def test_what_is_asked_is_told_as_kubernetes_tells_it(server: Server, path: str, verb: str, name: str) -> None:
    message = server.ask("GET", path, headers={"impersonate-user": "jane"}).obj["message"]
    assert f"cannot {verb} resource" in message
    assert message.split(" is forbidden")[0].split(" ")[1:] == ([name] if name else [])


def test_nothing_of_a_body_is_read_before_its_sender_may_write(server: Server) -> None:
    reply = server.ask("POST", CONFIG_MAPS, b"{no json", {"impersonate-user": "jane"})
    assert reply.code == 403
