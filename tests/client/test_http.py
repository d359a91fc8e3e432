"""The HTTP client against a real listener: it must be the same `Api` as the registry in-process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fairlead.api import builtin
from fairlead.api.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound, Unauthorized
from fairlead.api.meta import Object
from fairlead.api.verbs import DeleteOptions, EventType, ListQuery, PatchType, WatchQuery
from fairlead.client import http
from fairlead.client.http import HttpApi, error_of
from fairlead.client.informer import Informer
from fairlead.client.kubeconfig import Access, load
from fairlead.client.leader import Election, LostLeadership, Terms
from fairlead.client.unreachable import BadAnswer
from fairlead.compose import Settings, cluster
from fairlead.runtime.loops import run
from fairlead.server.auth.certificates import Pki
from fairlead.store.directory import credentials_in

Obj = dict[str, Any]
SERVER = Settings(port=0, components=frozenset({"api"}), disabled_admission=("ServiceAccount",))


def config_map(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def with_server(test: Any) -> Any:
    """Run an async test with an `HttpApi` of a server of its own."""

    async def scene() -> None:
        async with cluster(SERVER) as running:
            assert running.kubeconfig is not None
            async with HttpApi(load(running.kubeconfig)) as api:
                await test(api)

    def run_it() -> None:
        run(scene())

    run_it.__doc__ = test.__doc__
    run_it.__name__ = test.__name__
    return run_it


@with_server
async def test_objects_are_made_read_changed_and_removed(api: HttpApi) -> None:
    made = await api.create(builtin.CONFIG_MAPS, config_map("a", x="1"), "default")
    assert made.obj()["metadata"]["uid"]
    patched = await api.patch(builtin.CONFIG_MAPS, "a", "default", {"data": {"y": "2"}}, PatchType.MERGE)
    assert patched.obj()["data"] == {"x": "1", "y": "2"}
    whole = patched.obj() | {"data": {"z": "3"}}
    assert (await api.update(builtin.CONFIG_MAPS, whole)).obj()["data"] == {"z": "3"}
    await api.delete(builtin.CONFIG_MAPS, "a", "default")
    with pytest.raises(NotFound):
        await api.get(builtin.CONFIG_MAPS, "a", "default")


@with_server
async def test_refusals_are_the_errors_that_they_mean(api: HttpApi) -> None:
    await api.create(builtin.CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(AlreadyExists):
        await api.create(builtin.CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(Invalid) as refused:
        await api.create(builtin.CONFIG_MAPS, config_map("A b"), "default")
    assert refused.value.causes[0].field == "metadata.name"
    stale = config_map("a") | {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "1"}}
    with pytest.raises(Conflict):
        await api.update(builtin.CONFIG_MAPS, stale)
    with pytest.raises(Conflict):
        await api.delete(builtin.CONFIG_MAPS, "a", "default", DeleteOptions(precondition_uid="another"))


@with_server
async def test_a_list_of_many_pages_is_whole_and_says_of_what_kind_its_items_are(api: HttpApi) -> None:
    for number in range(1_100):
        await api.create(builtin.CONFIG_MAPS, config_map(f"m{number:04}"), "default")
    found = await api.list(builtin.CONFIG_MAPS, "default", ListQuery(fields="metadata.name!=kube-root-ca.crt"))
    assert [one.obj()["metadata"]["name"] for one in found.items] == [f"m{number:04}" for number in range(1_100)]
    assert (found.items[0].obj()["kind"], found.items[0].obj()["apiVersion"]) == ("ConfigMap", "v1")
    page = await api.list(builtin.CONFIG_MAPS, "default", ListQuery(limit=10))
    assert len(page.items) == 10 and page.continue_token


@with_server
async def test_a_watch_tells_every_change_from_a_version_on(api: HttpApi) -> None:
    version = (await api.list(builtin.CONFIG_MAPS)).resource_version
    await api.create(builtin.CONFIG_MAPS, config_map("a"), "default")
    await api.patch(builtin.CONFIG_MAPS, "a", "default", {"data": {"x": "1"}})
    await api.delete(builtin.CONFIG_MAPS, "a", "default")
    told = []
    async for event in api.watch(builtin.CONFIG_MAPS, "default", WatchQuery(resource_version=version)):
        told.append(event.type)
        if event.type is EventType.DELETED:
            break
    assert told == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]


def test_a_forgotten_version_is_expired_and_what_is_no_status_keeps_its_text() -> None:
    assert isinstance(error_of(410, b'{"kind":"Status","reason":"Expired","message":"too old","code":410}'), Expired)
    assert str(error_of(502, b"<html>bad gateway</html>")) == "<html>bad gateway</html>"
    assert str(error_of(500, b'{"message":"no \xff text"}')) == '{"message":"no \ufffd text"}'
    assert error_of(500, b'{"message":' + b"[" * 100_000).message.startswith('{"message":[[')


def test_nobody_gets_in_without_the_token() -> None:
    async def scene() -> None:
        async with cluster(SERVER) as running:
            assert running.kubeconfig is not None
            known = load(running.kubeconfig)
            async with HttpApi(Access(known.server, known.ca, "wrong")) as api:
                with pytest.raises(Unauthorized):
                    await api.list(builtin.PODS)

    run(scene())


def test_a_token_that_was_replaced_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pods are replaced every hour, in their file."""
    monkeypatch.setattr("fairlead.client.http.TOKEN_SECONDS", 0.0)

    async def scene() -> None:
        async with cluster(SERVER) as running:
            assert running.kubeconfig is not None
            known, file = load(running.kubeconfig), tmp_path / "token"
            file.write_text("wrong")
            async with HttpApi(Access(known.server, known.ca, "wrong", token_file=file)) as api:
                with pytest.raises(Unauthorized):
                    await api.list(builtin.PODS)
                file.write_text(Pki(credentials_in(running.kubeconfig.parent)).admin_token.read_text())
                await api.list(builtin.PODS)

    run(scene())


def test_a_server_that_is_away_is_an_os_error(tmp_path: Path) -> None:
    async def scene() -> None:
        async with HttpApi(Access("http://127.0.0.1:9")) as api:
            with pytest.raises(OSError):
                await api.list(builtin.PODS)

    run(scene())


class Quiet:
    """A server at rest: it lists nothing as of version 7, and its watches tell nothing."""

    def __init__(self) -> None:
        self.lists = 0
        self.watches: list[dict[str, str]] = []
        self.watched = asyncio.Semaphore(0)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        self.watches.append(dict(request.query))
        self.watched.release()
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()  # until the client goes away
        return response


def test_a_quiet_watch_is_taken_up_from_its_version_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kube-apiserver at rest may be silent for longer than we trust a silent connection."""
    monkeypatch.setattr(http, "SILENCE_SECONDS", 0.05)

    async def scene() -> None:
        quiet = Quiet()
        server = TestServer(web.Application())
        server.app.router.add_get("/api/v1/configmaps", quiet.answer)
        async with server, HttpApi(Access(str(server.make_url("")))) as api:
            following = asyncio.create_task(Informer(api, builtin.CONFIG_MAPS, Object).run())
            async with asyncio.timeout(10):
                for _ in range(3):
                    await quiet.watched.acquire()
            following.cancel()
        assert quiet.lists == 1
        assert {one["resourceVersion"] for one in quiet.watches} == {"7"}
        assert {one["allowWatchBookmarks"] for one in quiet.watches} == {"true"}
        assert all(300 <= int(one["timeoutSeconds"]) <= 600 for one in quiet.watches)

    run(scene())


@pytest.mark.parametrize(
    "answer", ["<html>Log in</html>", "{}", "[]", "null", '{"metadata": {}, "items": [{"a"', "\x00", "[" * 5000]
)
def test_a_server_that_speaks_of_something_else_is_told_of_and_asked_again(answer: str) -> None:
    """What stands before an API server may answer in its place, with a page to log in for example."""
    pages = iter([answer] * 8)

    async def respond(request: web.Request) -> web.StreamResponse:
        page = next(pages, None)
        if page is not None:
            return web.Response(text=page, content_type="text/html")
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(f"{answer}\n".encode() if next(odd, False) else b"")
        await asyncio.sleep(1000)
        return stream

    odd = iter([True])

    async def scene() -> None:
        server = TestServer(web.Application())
        server.app.router.add_route("*", "/{any:.*}", respond)
        async with server, HttpApi(Access(str(server.make_url("")))) as api:
            with pytest.raises(BadAnswer, match="none of Kubernetes"):
                await api.get(builtin.CONFIG_MAPS, "a", "default")
            with pytest.raises(BadAnswer):
                await api.list(builtin.CONFIG_MAPS)
            with pytest.raises(BadAnswer):
                await api.create(builtin.CONFIG_MAPS, config_map("a"), "default")
            kubelet_says = await api.get(builtin.NODES, "n", "", "proxy/metrics")
            assert kubelet_says.raw == answer.encode()
            for _ in pages:
                pass
            with pytest.raises(BadAnswer):
                async for _ in api.watch(builtin.CONFIG_MAPS):
                    pass
            assert not (await api.list(builtin.CONFIG_MAPS)).items

    run(scene())


# --- leadership -----------------------------------------------------------------------------------------------------

TERMS = Terms("work", "default", lease=1.0, renew_deadline=0.6, retry=0.1)


@with_server
async def test_one_leads_and_another_takes_over_when_it_stops(api: HttpApi) -> None:
    one, other = Election(api, "one", TERMS), Election(api, "other", TERMS)
    leads = {"one": asyncio.Event(), "other": asyncio.Event()}

    async def work(name: str) -> None:
        leads[name].set()
        await asyncio.Event().wait()

    first = asyncio.create_task(one.lead(lambda: work("one")))
    await leads["one"].wait()
    second = asyncio.create_task(other.lead(lambda: work("other")))
    await asyncio.sleep(0.5)
    assert not leads["other"].is_set()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await one.release()
    await asyncio.wait_for(leads["other"].wait(), 5)
    lease = (await api.get(builtin.LEASES, "work", "default")).obj()["spec"]
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("other", 1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


@with_server
async def test_who_cannot_renew_stops_working(api: HttpApi) -> None:
    stopped = asyncio.Event()

    async def work() -> None:
        try:
            patch = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
            await api.patch(builtin.LEASES, "work", "default", patch)
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(LostLeadership):
        await Election(api, "one", TERMS).lead(work)
    assert stopped.is_set()
