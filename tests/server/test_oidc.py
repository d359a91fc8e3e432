"""Tokens of OpenID issuers: what a configuration may say, and whom a token lets in (issue 16)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fairlead.api.objects import Obj
from fairlead.runtime.loops import run_virtual
from fairlead.server.auth.authentication import AuthenticationFile, AuthenticationSettings, read_configuration
from fairlead.server.auth.reloading import follow
from tests.server import http_world
from tests.server.http_world import JSON, SECONDS, check_status, serving_in_a_thread
from tests.server.https_services import Issuer

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def document(*issuers: Obj, **more: Any) -> bytes:
    return yaml.safe_dump(HEAD | {"jwt": list(issuers)} | more).encode()


def of(url: str = "https://issuer", audiences: list[str] | None = None, **more: Any) -> Obj:
    """An issuer that names its users by `sub`."""
    found: Obj = {"issuer": {"url": url, "audiences": audiences or ["fairlead"]}}
    found["claimMappings"] = {"username": {"claim": "sub", "prefix": "oidc:"}}
    found["issuer"] |= more.pop("issuer", {})
    found["claimMappings"] |= more.pop("claimMappings", {})
    return found | more


# -- what a configuration may say


def mapped(**mappings: Any) -> Obj:
    return of(claimMappings=mappings)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (document(of(""), {}), "jwt[0].issuer.url: Required value"),
        (document(of("http://x")), 'jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https'),
        (document(of("https://a:b@x")), "URL must not contain a username or password"),
        (document(of("https://x?y")), "URL must not contain a query"),
        (document(of("https://x#y")), "URL must not contain a fragment"),
        (document(of("https://kubernetes.default.svc")), "URL must not overlap with disallowed issuers: [https://kub"),
        (document(of(), of()), 'jwt[1].issuer.url: Duplicate value: "https://issuer"'),
        (document(of(issuer={"discoveryURL": "https://issuer/"})), "discoveryURL must be different from URL"),
        (document(of(issuer={"audiences": []})), "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer"),
        (document(of(issuer={"audiences": ["a", "a"]})), 'jwt[0].issuer.audiences[1]: Duplicate value: "a"'),
        (document(of(audiences=["a", "b"])), "audienceMatchPolicy must be MatchAny for multiple audiences"),
        (document(of(issuer={"audienceMatchPolicy": "All"})), "audienceMatchPolicy must be empty or MatchAny"),
        (
            document(of(issuer={"certificateAuthority": "x"})),
            'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or',
        ),
        (document(mapped(username={})), "jwt[0].claimMappings.username: Required value: claim or expression is requi"),
        (
            document(mapped(username={"claim": "sub"})),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is",
        ),
        (
            document(mapped(username={"claim": "a", "expression": "b"})),
            'jwt[0].claimMappings.username: Invalid value: "": claim and expression can\'t both be set',
        ),
        (
            document(mapped(username={"expression": "claim.sub"})),
            'jwt[0].claimMappings.username.expression: Invalid value: "claim.sub": compilation failed: ERROR: <input>:1'
            ":1: undeclared reference to 'claim' (in container '')",
        ),
        (document(mapped(username={"expression": "claims.email"})), "claims.email_verified must be used in claimMappi"),
        (document(mapped(extra=[{"key": "a", "valueExpression": "'x'"}])), "must be a domain-prefixed path"),
        (document(mapped(extra=[{"key": "X.io/a", "valueExpression": "'x'"}])), "must be lowercase"),
        (
            document(mapped(extra=[{"key": "a.k8s.io/b", "valueExpression": "'x'"}])),
            "their subdomains are reserved for",
        ),
        (document(mapped(extra=[{"key": "x.io/a"}])), "extra[0].valueExpression: Required value"),
        (
            document(of(claimValidationRules=[{}])),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression",
        ),
        (
            document(of(claimValidationRules=[{"expression": "claims.x"}])),
            'claimValidationRules[0].expression: Invalid value: "claims.x": must evaluate to bool',
        ),
        (
            document(of(claimValidationRules=[{"claim": "a", "message": "b"}])),
            'claimValidationRules[0].message: Invalid value: "b": may not be specified when claim is set',
        ),
        (
            document(of(userValidationRules=[{"expression": "user.name == 'x'"}])),
            "jwt[0].userValidationRules[0].expression: Invalid value",
        ),
        (document(*(of(f"https://issuer{number}") for number in range(65))), "jwt: Too many: 65: must have at most 64"),
        (document(anonymous={"enabled": False, "conditions": [{"path": "/livez"}]}), "enabled should be set to true"),
        (document(of(issuer={"uri": "x"})), 'strict decoding error: unknown field "jwt[0].issuer.uri"'),
        (b"apiVersion: v1\nkind: Pod\n", 'no kind "Pod" is registered for version "v1"'),
    ],
)
def test_what_is_wrong_is_refused_in_upstreams_words(data: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_configuration(data)
    assert why in str(caught.value)


def test_what_is_right_is_taken() -> None:
    verified = {"username": {"expression": "claims.email_verified ? claims.email : claims.sub"}}
    found = read_configuration(
        document(
            of(claimMappings=verified | {"groups": {"claim": "roles", "prefix": ""}, "uid": {"claim": "id"}}),
            of("https://b/c", ["a", "b"], issuer={"audienceMatchPolicy": "MatchAny"}),
            anonymous={"enabled": True, "conditions": [{"path": "/livez"}]},
        )
    )
    assert len(found.issuers) == 2
    assert found.allows_anonymous
    assert found.anonymous_paths == {"/livez"}
    assert read_configuration(document()).allows_anonymous is None


# -- tokens of a real issuer

RULES: Obj = {
    "claimValidationRules": [
        {"claim": "hd", "requiredValue": "example.com"},
        {"expression": "claims.exp - claims.iat <= 86400.0", "message": "lives too long"},
    ],
    "claimMappings": {
        "username": {"expression": "'cel:' + claims.user.name"},
        "groups": {"expression": "claims.roles.split(',')"},
        "uid": {"expression": "claims.id"},
        "extra": [{"key": "example.com/tenant", "valueExpression": "claims.?tenant.orValue('')"}],
    },
    "userValidationRules": [
        {"expression": "!user.groups.exists(g, g.startsWith('system:'))", "message": "no system groups"}
    ],
}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    made = Issuer(tmp_path_factory.mktemp("issuer"))
    with made.serving():
        yield made


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """One whose tokens are read by expressions, and which is found elsewhere."""
    made = Issuer(tmp_path_factory.mktemp("ruled"))
    made.issuer = "https://ruled.example"
    with made.serving():
        yield made


def trusting(issuer: Issuer, /, **more: Any) -> Obj:
    return of(issuer.issuer, issuer={"certificateAuthority": issuer.ca} | more.pop("issuer", {}), **more)


def settings(*issuers: Obj) -> AuthenticationSettings:
    return AuthenticationSettings(issuers=read_configuration(document(*issuers)).issuers)


@pytest.fixture(scope="module")
def server(issuer: Issuer, ruled: Issuer) -> Iterator[http_world.Server]:
    groups = {"groups": {"claim": "groups", "prefix": "oidc:"}}
    plain = trusting(issuer, claimMappings=groups)
    by_rules = trusting(ruled, issuer={"discoveryURL": f"{ruled.url}/elsewhere"}, **RULES)
    with serving_in_a_thread(authentication=settings(plain, by_rules)) as running:
        yield running


def review(server: http_world.Server, token: str) -> Obj:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status: Obj = server.ask("POST", REVIEWS, body).obj["status"]
    return status


def refusal(server: http_world.Server, token: str) -> str:
    status = review(server, token)
    assert not status.get("authenticated")
    text: str = status["error"]
    return text.removeprefix("[invalid bearer token, ").removesuffix("]")


def test_a_token_logs_in(server: http_world.Server, issuer: Issuer) -> None:
    token = issuer.token(groups=["ops", "dev"], jti="42")
    headers = JSON | {"authorization": f"Bearer {token}"}
    refused = server.ask("GET", "/api/v1/namespaces/default/pods", None, headers, server.guarded_port)
    assert 'User "oidc:jane" cannot list resource "pods"' in check_status(refused, 403, "Forbidden")
    status = review(server, token)
    assert status["audiences"] == ["https://kubernetes.default.svc"]
    assert status["user"]["groups"] == ["oidc:ops", "oidc:dev", "system:authenticated"]
    assert status["user"]["extra"] == {"authentication.kubernetes.io/credential-id": ["JTI=42"]}
    assert review(server, issuer.token(issuer.ec, "ES256", "ec", groups="ops"))["user"]["groups"][0] == "oidc:ops"
    for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512"):
        assert review(server, issuer.token(algorithm=algorithm))["authenticated"]
    assert review(server, issuer.token(kid=None, aud=["x", "fairlead"]))["authenticated"], "a key without a name"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "other"}, 'oidc: verify token: oidc: expected audience in "fairlead" got ["other"]'),
        ({"aud": None}, 'oidc: verify token: oidc: expected audience in "fairlead" got []'),
        ({"exp": 1}, "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)"),
        ({"exp": None}, "oidc: verify token: oidc: token is expired"),
        ({"nbf": 1 << 40}, "before the nbf (not before) time"),
        ({"sub": None}, 'oidc: parse username claims "sub": claim not present'),
        ({"sub": 7}, "json: cannot unmarshal number into Go value of type string"),
        ({"groups": [1]}, 'oidc: parse groups claim "groups": json: cannot unmarshal'),
    ],
)
def test_a_token_that_says_the_wrong_thing_is_told_why(
    server: http_world.Server, issuer: Issuer, claims: Obj, why: str
) -> None:
    assert why in refusal(server, issuer.token(**claims))


def test_nobody_else_makes_tokens(server: http_world.Server, issuer: Issuer) -> None:
    stranger = rsa.generate_private_key(65537, 2048)
    public = issuer.rsa.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    unsigned = "oidc: id token signed with unsupported algorithm"
    bad = "oidc: verify token: failed to verify signature: failed to verify id token signature"
    good = issuer.token()
    assert refusal(server, issuer.token(stranger)) == bad
    assert refusal(server, good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")) == bad
    assert refusal(server, issuer.token(kid="ec")) == bad, "an RSA signature, and a key that is none"
    assert unsigned in refusal(server, issuer.token("", "none"))
    assert unsigned in refusal(server, _with_the_public_key(good, public))
    for other in (issuer.token(iss="https://other"), good.replace(".", ",", 1), "a.b.c", ".." * 3, "e30.e30.e30"):
        assert refusal(server, other) == "invalid bearer token"


def _with_the_public_key(token: str, public: bytes) -> str:
    """An old trick: the key that everybody knows, as the secret of another algorithm."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    body = f"{part(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode())}.{token.split('.')[1]}"
    return f"{body}.{part(hmac.new(public, body.encode(), hashlib.sha256).digest())}"


def test_made_up_keys_do_not_make_the_server_ask(server: http_world.Server, issuer: Issuer) -> None:
    review(server, issuer.token())
    before = issuer.asked["/keys"]
    for number in range(20):
        refusal(server, issuer.token(kid=f"made-up-{number}"))
    assert issuer.asked["/keys"] <= before + 1, "the keys have just been fetched"


def test_expressions_make_the_user(server: http_world.Server, ruled: Issuer) -> None:
    claims: Obj = {"hd": "example.com", "user": {"name": "jo"}, "roles": "a,,b", "id": "7", "iat": 4102444800}
    claims["exp"] = claims["iat"] + 60
    user = review(server, ruled.token(**claims, tenant=["x", ""]))["user"]
    assert (user["username"], user["uid"]) == ("cel:jo", "7")
    assert user["groups"] == ["a", "b", "system:authenticated"]
    assert user["extra"] == {"example.com/tenant": ["x"]}
    assert "extra" not in review(server, ruled.token(**claims))["user"]

    def why(**changes: Any) -> str:
        return refusal(server, ruled.token(**(claims | changes)))

    assert why(hd="x.org") == "oidc: required claim hd value does not match. Got = x.org, want = example.com"
    assert why(hd=None) == "oidc: required claim hd not present in ID token"
    assert "failed: lives too long" in why(exp=claims["iat"] + 90_000)
    assert "'!user.groups.exists(g, g.startsWith('system:'))' failed: no system groups" in why(roles="system:masters")
    assert why(user={"name": ""}, roles=None).startswith("oidc: error evaluating group claim expression: expression")
    assert "uid claim expression must return a string" in why(id=7)


def test_an_issuer_that_is_wrong_is_not_asked_by_every_token(tmp_path: Path) -> None:
    wrong = Issuer(tmp_path)
    with wrong.serving():
        wrong.issuer = "https://somebody.else"
        listed = of(wrong.url, issuer={"certificateAuthority": wrong.ca})
        with serving_in_a_thread(authentication=settings(listed)) as server:
            for _ in range(5):
                told = refusal(server, wrong.token(iss=wrong.url))
                assert "issuer did not match the issuer returned by provider" in told
            assert wrong.asked["/.well-known/openid-configuration"] < 5


def test_nobody_waits_for_an_issuer_that_does_not_answer(tmp_path: Path, issuer: Issuer) -> None:
    slow = Issuer(tmp_path)
    asked, answer = threading.Event(), threading.Event()

    def before() -> None:
        asked.set()
        answer.wait(SECONDS)

    slow.before = before
    with slow.serving(), serving_in_a_thread(authentication=settings(trusting(slow), trusting(issuer))) as server:
        found: list[Obj] = []
        waiting = threading.Thread(target=lambda: found.append(review(server, slow.token())))
        waiting.start()
        assert asked.wait(SECONDS)
        assert review(server, issuer.token())["authenticated"]
        assert refusal(server, "nonsense") == "invalid bearer token"
        answer.set()
        waiting.join(SECONDS)
        assert found[0]["authenticated"], "it came in time after all"


def test_a_file_that_is_wrong_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, applied = tmp_path / "f", list[bytes]()

    def apply(data: bytes) -> None:
        if data == b"wrong":
            raise ValueError("why")
        applied.append(data)

    async def scene() -> None:
        path.write_bytes(b"first")
        following = asyncio.create_task(follow(path, b"first", apply))
        for data in (b"second", b"wrong", b"third"):
            await asyncio.sleep(2)
            path.write_bytes(data)
        await asyncio.sleep(2)
        path.unlink()
        await asyncio.sleep(2)
        following.cancel()

    run_virtual(scene())
    assert applied == [b"second", b"third"]
    assert f"{path} does not count: why" in caplog.text


def test_a_file_that_changes_counts_anew(tmp_path: Path, issuer: Issuer) -> None:
    path = tmp_path / "authentication.yaml"
    path.write_bytes(document())
    file = AuthenticationFile(path, path.read_bytes())
    with serving_in_a_thread(authentication=AuthenticationSettings(file=file)) as server:
        assert refusal(server, issuer.token()) == "invalid bearer token"
        path.write_bytes(document(trusting(issuer)))
        server.soon(lambda: bool(review(server, issuer.token()).get("authenticated")))
        path.write_bytes(document())
        server.soon(lambda: not review(server, issuer.token()).get("authenticated"))
