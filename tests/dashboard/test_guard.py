"""Who may see the dashboard: nobody by default, and no page of another site even in the right browser."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from fairlead.api.objects import Obj
from fairlead.dashboard.app import MOST_CONNECTIONS, MOST_STREAMS
from fairlead.dashboard.rows import Batch
from fairlead.dashboard.source import About, Chart, UnknownPod
from tests.dashboard.shown import events, on_source, visitor


class Nothing:
    """A source of which only the about is of interest."""

    about = About("nothing", is_live=True)

    async def batches(self, variant: str) -> AsyncGenerator[Batch | Chart | None, None]:
        yield Batch(1.0)
        await asyncio.get_running_loop().create_future()

    async def why(self, key: str, variant: str) -> Obj:
        raise UnknownPod(f"no {key}")


async def asked(link: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Without the link's cookie."""
    async with (
        aiohttp.ClientSession(link.partition("/?")[0]) as session,
        session.request(method, path, headers=headers, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/about", "/events", "/why?pod=a/b", "/?token=", "/?token=x"])
def test_nothing_is_shown_without_the_link(path: str) -> None:
    async def test(link: str) -> None:
        status, text = await asked(link, path)
        assert status == 401
        assert "open the link that was printed" in text

    on_source(test, Nothing())


def test_the_link_leads_to_a_cookie_that_no_script_and_no_other_site_has() -> None:
    async def test(link: str) -> None:
        async with aiohttp.ClientSession() as session, session.get(link, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert link.partition("token=")[2] not in cookie
        async with visitor(link) as session, session.get("/about") as answer:
            assert await answer.json() == {"title": "nothing", "isLive": True}

    on_source(test, Nothing())


def test_each_start_has_a_token_of_its_own() -> None:
    links: set[str] = set()

    async def test(link: str) -> None:
        links.add(link.partition("token=")[2])

    on_source(test, Nothing())
    on_source(test, Nothing())
    assert len(links) == 2
    assert min(map(len, links)) >= 40


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example.com"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_other_names_and_other_sites_are_refused_even_with_the_cookie(headers: dict[str, str], status: int) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.get("/about", headers=headers) as answer:
            assert answer.status == status

    on_source(test, Nothing())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(method: str) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.request(method, "/about") as answer:
            assert answer.status == 405

    on_source(test, Nothing())


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/about", "/nowhere", "/?token=wrong"])
def test_every_answer_forbids_what_is_not_from_here(path: str) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.get(path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in answer.headers

    on_source(test, Nothing())


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/..%2fapp.py", "/static/vendor/htm.LICENSE", "/static/"])
def test_files_beside_the_page_are_not_served(path: str) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.get(path) as answer:
            assert answer.status == 404

    on_source(test, Nothing())


@pytest.mark.parametrize("pod", ["", "web", "a/b/c", "a/" + "b" * 400])
def test_why_takes_the_name_of_a_pod(pod: str) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.get("/why", params={"pod": pod}) as answer:
            assert (answer.status, await answer.text()) == (400, "pod= takes NAMESPACE/NAME\n")

    on_source(test, Nothing())


def test_a_pod_that_is_not_known_is_told_so() -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, session.get("/why", params={"pod": "a/b"}) as answer:
            assert (answer.status, await answer.text()) == (404, "no a/b")

    on_source(test, Nothing())


def test_only_so_many_pages_are_told_of_news_and_a_closed_one_makes_room() -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session:
            streams = [events(session) for _ in range(MOST_STREAMS)]
            for stream in streams:
                await anext(await stream.__aenter__())
            async with session.get("/events") as answer:
                assert answer.status == 503
            for stream in streams:
                await stream.__aexit__(None, None, None)

    on_source(test, Nothing())


def test_connections_of_strangers_are_few() -> None:
    async def test(link: str) -> None:
        port = int(link.partition("/?")[0].rpartition(":")[2])
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 4)]
        for reader, _ in opened[MOST_CONNECTIONS:]:
            assert await reader.read() == b""
        for _, writer in opened:
            writer.close()
        with socket.create_connection(("127.0.0.1", port)):
            pass

    on_source(test, Nothing())
