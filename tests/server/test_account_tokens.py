"""Tokens of service accounts (issue 16): whom they let in, for whom they are, and what ends them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.builtin import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from fairlead.api.errors import BadRequest, Conflict, Invalid, NotFound
from fairlead.api.objects import Obj
from fairlead.api.users import ADMIN
from fairlead.runtime.loops import run_virtual
from fairlead.server.account_tokens import ISSUER, AccountTokens, InvalidToken
from fairlead.server.assembly import Server
from fairlead.server.auth.tokens import ensure_account_key
from fairlead.store.memory import MemoryStore
from tests.server import http_world
from tests.server.http_world import JSON, TOKEN, check_status, serving_in_a_thread

T = TypeVar("T")
POD: Obj = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "bot"},
}
NODE_UID = "authentication.kubernetes.io/node-uid"
_PEM = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


def within(steps: Callable[[Server], Awaitable[T]]) -> T:
    """In virtual time, with an account `bot` in the namespace `default`."""

    async def run() -> T:
        server = Server(MemoryStore())
        await server.open([])
        await server.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "bot"}}, "default")
        return await steps(server)

    return run_virtual(run())


async def token_of(server: Server, bound: tuple[str, str] | None = None, **spec: Any) -> str:
    if bound is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": bound[0], "name": bound[1]}
    made = await server.api.create(SERVICE_ACCOUNTS, {"spec": spec}, "default", name="bot", subresource="token")
    text: str = made.obj()["status"]["token"]
    return text


def refusal(server: Server, token: str) -> str:
    with pytest.raises(InvalidToken) as caught:
        server.registry.account_tokens.verify(token, (ISSUER,))
    return str(caught.value)


def test_a_token_is_its_account_for_whom_it_was_made() -> None:
    async def steps(server: Server) -> None:
        found = server.registry.account_tokens.verify(await token_of(server), (ISSUER,))
        assert found.user.name == "system:serviceaccount:default:bot"
        assert found.user.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
        assert found.user.extra_value("authentication.kubernetes.io/credential-id").startswith("JTI=")
        account = await server.api.get(SERVICE_ACCOUNTS, "bot", "default")
        assert found.user.uid == account.obj()["metadata"]["uid"]
        meant = await token_of(server, audiences=["vault", "a"])
        assert server.registry.account_tokens.verify(meant, ("a", "b")).audiences == ("a",)
        assert refusal(server, meant) == (
            'token audiences ["vault" "a"] is invalid for the target audiences ["https://kubernetes.default.svc"]'
        )

    within(steps)


def test_a_token_expires_when_it_says() -> None:
    async def steps(server: Server) -> None:
        token = await token_of(server, expirationSeconds=600)
        await asyncio.sleep(599)
        server.registry.account_tokens.verify(token, (ISSUER,))
        await asyncio.sleep(1)
        assert refusal(server, token) == "service account token has expired"

    within(steps)


@pytest.mark.parametrize(("resource", "kind"), [(PODS, "Pod"), (SECRETS, "Secret"), (NODES, "Node")])
def test_a_token_dies_with_what_it_is_bound_to(resource: Any, kind: str) -> None:
    async def steps(server: Server) -> None:
        body = POD if kind == "Pod" else {"metadata": {"name": "p"}}
        namespace = "default" if resource.namespaced else ""
        await server.api.create(resource, body, namespace)
        token = await token_of(server, (kind, "p"))
        server.registry.account_tokens.verify(token, (ISSUER,))
        await server.api.delete(resource, "p", namespace)
        assert refusal(server, token) == "service account token has been invalidated"
        await server.api.create(resource, body, namespace)
        assert refusal(server, token) == "service account token has been invalidated", "another one of that name"

    within(steps)


def test_a_token_dies_with_its_account() -> None:
    async def steps(server: Server) -> None:
        token = await token_of(server)
        await server.api.delete(SERVICE_ACCOUNTS, "bot", "default")
        assert refusal(server, token) == "service account token has been invalidated"
        await server.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "bot"}}, "default")
        assert refusal(server, token) == "service account token has been invalidated"

    within(steps)


def test_an_account_that_goes_slowly_lets_its_pods_clean_up_for_a_minute() -> None:
    async def steps(server: Server) -> None:
        held = {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}}
        await server.api.create(SERVICE_ACCOUNTS, held, "default")
        made = await server.api.create(SERVICE_ACCOUNTS, {}, "default", name="held", subresource="token")
        token = made.obj()["status"]["token"]
        await server.api.delete(SERVICE_ACCOUNTS, "held", "default")
        await asyncio.sleep(59)
        server.registry.account_tokens.verify(token, (ISSUER,))
        await asyncio.sleep(3)
        assert refusal(server, token) == "service account token has been invalidated"

    within(steps)


def test_a_token_of_a_pod_names_the_pod_and_its_node() -> None:
    async def steps(server: Server) -> None:
        node = await server.api.create(NODES, {"metadata": {"name": "n"}})
        await server.api.create(PODS, POD | {"spec": POD["spec"] | {"nodeName": "n"}}, "default")
        user = server.registry.account_tokens.verify(await token_of(server, ("Pod", "p")), (ISSUER,)).user
        assert user.extra_value("authentication.kubernetes.io/pod-name") == "p"
        assert user.extra_value("authentication.kubernetes.io/node-name") == "n"
        assert user.extra_value(NODE_UID) == node.obj()["metadata"]["uid"]

    within(steps)


def test_what_is_asked_for_wrongly_is_refused_with_the_field() -> None:
    async def steps(server: Server) -> None:
        with pytest.raises(
            Invalid, match=r"spec\.expirationSeconds: Invalid value: 599: may not specify a duration less"
        ):
            await token_of(server, expirationSeconds=599)
        with pytest.raises(Invalid, match="may not specify a duration larger than 2"):
            await token_of(server, expirationSeconds=(1 << 32) + 1)
        with pytest.raises(NotFound, match='pods "ghost" not found'):
            await token_of(server, ("Pod", "ghost"))
        with pytest.raises(BadRequest, match="cannot bind token to object of type /v1, Kind=ConfigMap"):
            await token_of(server, ("ConfigMap", "c"))
        await server.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        other = POD | {"spec": POD["spec"] | {"serviceAccountName": "default"}}
        await server.api.create(PODS, other, "default")
        with pytest.raises(BadRequest, match="pod running with different serviceaccount name"):
            await token_of(server, ("Pod", "p"))
        with pytest.raises(Conflict, match="does not match the UID in record"):
            await token_of(server, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "other"})
        with pytest.raises(NotFound, match='serviceaccounts "ghost" not found'):
            await server.api.create(SERVICE_ACCOUNTS, {}, "default", name="ghost", subresource="token")

    within(steps)


def forged(**changes: Any) -> dict[str, Any]:
    account = {"namespace": "default", "serviceaccount": {"name": "bot", "uid": "1"}}
    claims: dict[str, Any] = {"iss": ISSUER, "aud": [ISSUER], "exp": 1 << 40, "kubernetes.io": account}
    return claims | {"sub": "system:serviceaccount:default:bot"} | changes


def test_a_token_of_an_account_that_was_made_anew_is_refused_to_who_means_the_one_before() -> None:
    async def steps(server: Server) -> None:
        bot = (await server.api.get(SERVICE_ACCOUNTS, "bot", "default")).metadata()["uid"]
        request = {"metadata": {"uid": bot}}
        assert (await server.api.create(SERVICE_ACCOUNTS, request, "default", name="bot", subresource="token")).obj()
        with pytest.raises(Conflict) as refused:
            request = {"metadata": {"uid": "u"}}
            await server.api.create(SERVICE_ACCOUNTS, request, "default", name="bot", subresource="token")
        assert refused.value.message == (
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": the UID in the token request '
            f"(u) does not match the UID of the service account ({bot})"
        )

    within(steps)


def test_nobody_else_makes_tokens() -> None:
    async def steps(server: Server) -> None:
        stranger, ours = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        server.registry.account_tokens.sign_with(ours)
        public = ours.public_key().public_bytes(*_PEM)
        texts = [
            jwt.encode(forged(), stranger, "ES256"),
            jwt.encode(forged(), "", "none"),
            _signed_with_the_public_key(public),
            jwt.encode(forged(iss="https://evil.example"), ours, "ES256"),
            jwt.encode(forged(sub="system:serviceaccount:kube-system:root"), ours, "ES256"),
            jwt.encode(forged(exp="tomorrow"), ours, "ES256"),
            jwt.encode(forged(aud={"a": 1}), ours, "ES256"),
            jwt.encode(forged(**{"kubernetes.io": []}), ours, "ES256"),
            jwt.encode(forged(), ours, "ES256") + "x" * (1 << 20),
            "a.b.c",
            "." * 100_000,
            "ö",
            "",
        ]
        for text in texts:
            assert refusal(server, text) == "invalid bearer token", text[:80]

    within(steps)


def _signed_with_the_public_key(public: bytes) -> str:
    """An old trick: the key that everybody knows, as the secret of another algorithm."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    body = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(forged()).encode())
    return (body + b"." + part(hmac.new(public, body, hashlib.sha256).digest())).decode()


@given(st.text() | st.from_regex(r"[\w-]{0,40}(\.[\w-]{0,40}){0,4}", fullmatch=True))
def test_no_text_raises_anything_else(text: str) -> None:
    class Nothing:
        def find(self, resource: str, name: str, namespace: str = "") -> None:
            return None

    with pytest.raises(InvalidToken):
        AccountTokens(Nothing()).verify(text)


def test_the_key_outlives_the_process(tmp_path: Path) -> None:
    assert ensure_account_key(tmp_path).private_numbers() == ensure_account_key(tmp_path).private_numbers()
    assert (tmp_path / "sa.key").stat().st_mode & 0o077 == 0


# -- over HTTP


@pytest.fixture(scope="module")
def server() -> Iterator[http_world.Server]:
    with serving_in_a_thread() as running:
        running.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bot"}})
        yield running


def asked(server: http_world.Server) -> str:
    token: str = server.ask("POST", "/api/v1/namespaces/default/serviceaccounts/bot/token", {}).obj["status"]["token"]
    return token


def test_a_token_logs_in_and_may_what_its_account_may(server: http_world.Server) -> None:
    headers = JSON | {"authorization": f"Bearer {asked(server)}"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    who = server.ask("POST", path, review, headers, server.guarded_port).obj["status"]["userInfo"]
    assert who["username"] == "system:serviceaccount:default:bot"
    assert who["groups"][-1] == "system:authenticated"
    refused = server.ask("GET", "/api/v1/namespaces/default/secrets", None, headers, server.guarded_port)
    assert 'User "system:serviceaccount:default:bot" cannot list' in check_status(refused, 403, "Forbidden")
    wrong = JSON | {"authorization": f"Bearer {asked(server)[:-2]}"}
    check_status(server.ask("GET", "/api/v1/pods", None, wrong, server.guarded_port), 401, "Unauthorized")


def test_reviews_know_every_token(server: http_world.Server) -> None:
    def review(token: str, **spec: Any) -> Obj:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, **spec}}
        status: Obj = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body).obj["status"]
        return status

    assert review(TOKEN)["user"]["username"] == ADMIN.name
    ours = review(asked(server))
    assert (ours["authenticated"], ours["audiences"]) == (True, [ISSUER])
    assert ours["user"]["username"] == "system:serviceaccount:default:bot"
    other = review(asked(server), audiences=["vault"])
    assert not other.get("authenticated")
    assert "is invalid for the target audiences" in other["error"]
    assert review("nonsense") == {"user": {}, "error": "invalid bearer token"}


def test_a_stranger_verifies_a_token_with_the_published_keys(server: http_world.Server) -> None:
    found = server.ask("GET", "/.well-known/openid-configuration").obj
    keys = server.ask("GET", found["jwks_uri"].removeprefix("https://127.0.0.1:1"))
    assert keys.headers["content-type"] == "application/jwk-set+json"
    (key,) = keys.obj["keys"]
    token = asked(server)
    assert jwt.get_unverified_header(token)["kid"] == key["kid"]
    assert key["alg"] in found["id_token_signing_alg_values_supported"]
    claims = jwt.decode(token, jwt.PyJWK(key), [key["alg"]], audience=ISSUER, issuer=found["issuer"])
    assert claims["sub"] == "system:serviceaccount:default:bot"
