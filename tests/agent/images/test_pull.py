"""Pulls from a registry on the loopback: logins, platforms, faults, and containerd's words for what fails."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from pathlib import Path

import pytest

from fairlead.agent.images.challenges import challenge
from fairlead.agent.images.credentials import Keyring, keyring
from fairlead.agent.images.errors import PullFailed
from fairlead.agent.images.image import Image
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.registry import is_loopback
from fairlead.agent.images.store import ImageStore
from tests.agent.images.archives import ELSEWHERE, Entry, config, digest, layer
from tests.agent.images.registries import PASSWORD, USER, LocalRegistry

BASE = layer(Entry("sh", b"shell"))
#: gzip makes it no smaller, so that an answer with it can break in the middle.
LARGE = layer(Entry("large", random.Random(1).randbytes(300_000)))
TOLD = 'failed to pull and unpack image "HOST/team/app:v1": '
RESOLVING = f'{TOLD}failed to resolve reference "HOST/team/app:v1": '


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path)


@pytest.fixture
def registry() -> LocalRegistry:
    return LocalRegistry()


def pulled(
    store: ImageStore, registry: LocalRegistry, name: str = "team/app:v1", logins: dict[str, str] | None = None
) -> Image:
    """`logins` are passwords by path: "" is the whole registry."""

    async def pull() -> Image:
        async with registry.served():
            return await store.pull(f"{registry.address}/{name}", _ring(registry.address, logins or {}))

    return asyncio.run(pull())


def _ring(address: str, logins: dict[str, str]) -> Keyring:
    auths = {address + path: {"username": USER, "password": password} for path, password in logins.items()}
    return keyring([json.dumps({"auths": auths}).encode()])


def refusal(
    store: ImageStore, registry: LocalRegistry, name: str = "team/app:v1", logins: dict[str, str] | None = None
) -> str:
    with pytest.raises(PullFailed) as refused:
        pulled(store, registry, name, logins)
    assert (store.list(), store.disk_usage().bytes) == ([], 0)
    return f"{refused.value.code}: {refused.value}".replace(registry.address, "HOST")


def test_an_image_is_pulled_and_found(store: ImageStore, registry: LocalRegistry) -> None:
    entry = registry.image([BASE, LARGE], Cmd=["/sh"])
    registry.tag("v1", entry)
    image = pulled(store, registry)
    name = f"{registry.address}/team/app"
    assert image.id == digest(config([BASE, LARGE], Cmd=["/sh"]))
    assert (image.tags, image.digests) == ([f"{name}:v1"], [f"{name}@{entry['digest']}"])
    assert image.config.cmd == ["/sh"]
    assert store.find(f"{name}:v1") == store.find(f"{name}@{entry['digest']}") == image
    assert (image.layers[0] / "sh").read_bytes() == b"shell"


def test_an_index_gives_this_machines_and_a_digest_is_enough(store: ImageStore, registry: LocalRegistry) -> None:
    here = registry.image([BASE])
    index = registry.index(registry.image([LARGE], ELSEWHERE), here)
    image = pulled(store, registry, f"team/app@{index['digest']}")
    name = f"{registry.address}/team/app"
    assert (image.tags, image.digests) == ([], [f"{name}@{index['digest']}", f"{name}@{here['digest']}"])
    assert len(registry.asked) == 4  # index, manifest, configuration, one layer


def test_layers_that_are_here_are_not_asked_for(store: ImageStore, registry: LocalRegistry) -> None:
    registry.tag("v1", registry.image([BASE]))
    registry.tag("v2", registry.image([BASE], Cmd=["/other"]))
    pulled(store, registry)
    before = len(registry.asked)
    image = pulled(store, registry, "team/app:v2")
    assert len(registry.asked) - before == 2
    assert image.config.cmd == ["/other"]


@pytest.mark.parametrize("login", ["basic", "bearer"])
def test_whoever_has_the_password_is_let_in(login: str, store: ImageStore) -> None:
    registry = LocalRegistry(login=login)
    registry.tag("v1", registry.image([BASE, LARGE]))
    pulled(store, registry, logins={"": PASSWORD})
    assert registry.scopes == (["repository:team/app:pull"] if login == "bearer" else [])


def test_a_token_may_be_free(store: ImageStore) -> None:
    registry = LocalRegistry(login="bearer", is_token_free=True)
    registry.tag("v1", registry.image([BASE]))
    assert pulled(store, registry).tags == [f"{registry.address}/team/app:v1"]


def test_each_secret_is_tried(store: ImageStore) -> None:
    registry = LocalRegistry(login="basic")
    registry.tag("v1", registry.image([BASE]))
    assert pulled(store, registry, logins={"/team": "wrong", "": PASSWORD}).tags


def test_whoever_has_none_is_refused_in_containerds_words(store: ImageStore) -> None:
    registry = LocalRegistry(login="basic")
    registry.tag("v1", registry.image([BASE]))
    denied = "pull access denied, repository does not exist or may require authorization: "
    assert refusal(store, registry) == f"Unknown: {RESOLVING}{denied}authorization failed: no basic auth credentials"
    text = f"Unknown: {RESOLVING}{denied}server message: insufficient_scope: authorization failed"
    assert refusal(store, registry, logins={"": "wrong"}) == text
    assert refusal(store, registry, logins={"": "wrong", "/team": "too"}).startswith("Unknown: [failed to pull")


def test_a_token_that_is_not_given_is_told(store: ImageStore) -> None:
    registry = LocalRegistry(login="bearer")
    told = refusal(store, registry)
    assert told.startswith(
        f"Unknown: {RESOLVING}failed to authorize: failed to fetch anonymous token: "
        "unexpected status from GET request to http://HOST/token?"
    )
    assert told.endswith(": 401 Unauthorized")


def test_an_image_that_is_not_there_is_not_found(store: ImageStore, registry: LocalRegistry) -> None:
    assert refusal(store, registry) == f"NotFound: {RESOLVING}HOST/team/app:v1: not found"


def test_a_registry_that_is_not_there_is_told(store: ImageStore) -> None:
    with pytest.raises(PullFailed, match=r"dial tcp 127\.0\.0\.1:1: connect: connection refused$"):
        asyncio.run(store.pull("127.0.0.1:1/app"))


def test_another_platform_is_not_found(store: ImageStore, registry: LocalRegistry) -> None:
    index = registry.index(registry.image([BASE], ELSEWHERE))
    registry.tag("v1", index)
    assert refusal(store, registry).startswith(
        f"NotFound: {TOLD}no match for platform in manifest {index['digest']}: not found (it has linux/{ELSEWHERE};"
    )
    alone = registry.image([LARGE], ELSEWHERE)
    registry.tag("v1", alone)
    assert f"no match for platform in manifest {alone['digest']}" in refusal(store, registry)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_broken_connection_is_taken_up_again(knows_ranges: bool, store: ImageStore, registry: LocalRegistry) -> None:
    registry.knows_ranges, registry.breaks = knows_ranges, 2
    registry.tag("v1", registry.image([LARGE]))
    assert (pulled(store, registry).layers[0] / "large").stat().st_size == 300_000
    assert registry.breaks == 0
    assert registry.ranges  # but not of what broke before a byte came


def test_a_connection_that_breaks_always_is_given_up(store: ImageStore, registry: LocalRegistry) -> None:
    registry.breaks, registry.knows_ranges = 100, False
    registry.tag("v1", registry.image([LARGE]))
    assert refusal(store, registry).endswith(": unexpected EOF")


def test_other_bytes_than_promised_are_refused(store: ImageStore, registry: LocalRegistry) -> None:
    entry = registry.image([BASE])
    registry.tag("v1", entry)
    packed = digest(gzip.compress(BASE, mtime=0))
    whole = registry.blobs[packed]
    registry.blobs[packed] = whole[:-1] + b"?"
    assert f"failed to copy: {packed}: unexpected commit digest sha256:" in refusal(store, registry)
    registry.blobs[packed] = whole[:-1]
    assert "unexpected EOF" in refusal(store, registry)
    registry.blobs[packed] = whole + b"more"
    assert f"has more than the {len(whole)} bytes" in refusal(store, registry)
    registry.blobs[packed] = whole
    registry.blobs[entry["digest"]] += b" "
    assert f"expected {entry['digest']}: failed precondition" in refusal(store, registry)


def test_documents_are_bounded(tmp_path: Path, registry: LocalRegistry) -> None:
    registry.tag("v1", registry.image([BASE]))
    assert "has more than 100 bytes" in refusal(ImageStore(tmp_path, Limits(document_bytes=100)), registry)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"schemaVersion": 1}, "is of Docker's schema 1"),
        ({"schemaVersion": 2}, "is damaged"),
        ({"config": {"digest": "../../x"}, "layers": []}, "for a digest"),
        ({"config": {"digest": digest(b""), "size": -5}, "layers": []}, "has -5 bytes"),
        ({"config": {"digest": digest(b""), "mediaType": "x+zstd"}, "layers": []}, "zstd, which is not understood"),
        ({"manifests": []}, "no match for platform"),
        ([], "is damaged"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    document: object, why: str, store: ImageStore, registry: LocalRegistry
) -> None:
    registry.tag("v1", registry.add(json.dumps(document).encode()))
    assert why in refusal(store, registry)


def test_pulls_at_once_share_layers_and_lose_nothing(store: ImageStore, registry: LocalRegistry) -> None:
    for number in range(5):
        registry.tag(f"v{number}", registry.image([BASE, LARGE], Cmd=[str(number)]))

    async def pull_all() -> None:
        async with registry.served():
            await asyncio.gather(*(store.pull(f"{registry.address}/app:v{number}") for number in range(5)))

    asyncio.run(pull_all())
    assert [image.config.cmd for image in store.list()] == [[str(number)] for number in range(5)]
    assert len({place for image in store.list() for place in image.layers}) == len(store.list()[0].layers)


def test_a_pull_that_is_given_up_leaves_nothing(tmp_path: Path, store: ImageStore, registry: LocalRegistry) -> None:
    registry.tag("v1", registry.image([LARGE]))

    async def give_up() -> None:
        async with registry.served():
            pull = asyncio.create_task(store.pull(f"{registry.address}/app:v1"))
            await registry.large_blob_asked.wait()
            pull.cancel()
            await asyncio.gather(pull, return_exceptions=True)

    asyncio.run(give_up())
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) in (
        ["layers", "lock"],
        ["index.json", "layers", "lock"],
    )


@pytest.mark.parametrize(
    ("headers", "scheme", "realm", "scope"),
    [
        (
            ['Bearer realm="https://a/t",service="b",scope="repository:x:pull,push"'],
            "bearer",
            "https://a/t",
            "repository:x:pull,push",
        ),
        (['Basic realm="x"', 'bearer realm="https://a"'], "bearer", "https://a", ""),
        (["BASIC"], "basic", "", ""),
        (["Bearer realm=https://a , service=b"], "bearer", "https://a", ""),
        (['Bearer realm="unfinished'], "bearer", '"unfinished', ""),
    ],
)
def test_challenges_are_understood(headers: list[str], scheme: str, realm: str, scope: str) -> None:
    asked = challenge(headers)
    assert asked is not None
    assert (asked.scheme, asked.scope) == (scheme, scope)
    assert asked.realm in (realm, "")
    assert challenge(["Negotiate abc"]) is None


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        *((host, True) for host in ("localhost", "localhost:5000", "127.0.0.1:1", "[::1]:5000")),
        *((host, False) for host in ("127.evil.com", "10.0.0.1", "registry.io", "localhost.evil.com")),
    ],
)
def test_only_the_loopback_is_asked_without_tls(host: str, is_local: bool) -> None:
    assert is_loopback(host) == is_local
