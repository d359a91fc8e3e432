"""What pods have used, asked of a Prometheus: a real listener that answers as one does."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from fairlead.compose import restored
from fairlead.sim.usage.expressions import Scale, parse_usage
from fairlead.sim.usage.measures import Unit
from fairlead.study.capture import captured
from fairlead.study.prometheus import NoPrometheus, Usage, check_url, cpu_text, usage_of_pods
from tests.study.clusters import node, running

START = 1_772_323_200.0  # midnight
HOUR = 3600.0


def asked(answer: Callable[[str], Any]) -> Usage:
    """`answer` makes the body of a query."""
    queries: list[dict[str, str]] = []

    async def serve(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        found = answer(request.query["query"])
        return web.Response(text=found if isinstance(found, str) else json.dumps(found))

    async def main() -> Usage:
        app = web.Application()
        app.router.add_get("/prom/api/v1/query_range", serve)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            return await usage_of_pods(check_url(f"http://{host}:{port}/prom/"), 86400.0)
        finally:
            await runner.cleanup()

    found = asyncio.run(main())
    assert [query["step"] for query in queries] == ["3600", "3600"]
    assert all(float(query["end"]) - float(query["start"]) == pytest.approx(86400, abs=1) for query in queries)
    return found


def matrix(*values: tuple[float, str]) -> dict[str, Any]:
    metric = {"namespace": "shop", "pod": "web-1", "container": "app"}
    return {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": metric, "values": values}]}}


def test_memory_is_its_highest_hour_and_cpu_its_mean() -> None:
    def answer(query: str) -> Any:
        if "memory" in query:
            return matrix((START, "1e8"), (START + HOUR, "3e8"), (START + 2 * HOUR, "NaN"))
        return matrix((START, "0.2"), (START + HOUR, "0.3"))

    assert asked(answer) == {
        "shop/web-1": {
            "app.sim.fairlead.dev/usage-memory": "300000000",
            "app.sim.fairlead.dev/usage-cpu": "250m",
        }
    }


def test_hours_that_differ_are_a_wave_of_the_day() -> None:
    day = [(START + hour * HOUR, 1 - 0.5 * math.cos((hour - 3) / 12 * math.pi)) for hour in range(48)]
    text = cpu_text(day)
    assert text == "wave(low=500m, high=1500m, period=24h, peak=15:30)"
    parse_usage(text, Unit.CORES, Scale(0.0, 0.0), {})
    assert cpu_text(day[:20]).endswith("m"), "part of a day is none"
    assert cpu_text([(moment, 0.5) for moment, _ in day]) == "500m"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"status": "error", "error": "query timed out"}, "query timed out"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, "vector"),
        ("<html>", "does not answer as Prometheus does"),
        ("[" * 100_000, "does not answer as Prometheus does"),
    ],
)
def test_who_is_no_prometheus_is_told_of(answer: Any, problem: str) -> None:
    with pytest.raises(NoPrometheus, match=problem):
        asked(lambda query: answer)


@pytest.mark.parametrize("url", ["localhost:9090", "ftp://x", "http://", "http://x/?q=1", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is no address of Prometheus"):
        check_url(url)


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(NoPrometheus, match="connection refused"):
        asyncio.run(usage_of_pods("http://127.0.0.1:9", 3600.0))


def test_what_a_pod_has_used_is_captured_with_it() -> None:
    pod = running(
        {"name": "web-1", "namespace": "shop"}, {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}
    )
    used = {"c.sim.fairlead.dev/usage-cpu": "250m"}

    async def main() -> dict[str, str]:
        async with restored([node("a"), pod]) as api:
            objects = [obj async for obj in captured(api, lambda kind, why: None, {"shop/web-1": used})]
        (found,) = [obj for obj in objects if obj["kind"] == "Pod"]
        return dict(found["metadata"]["annotations"])

    assert asyncio.run(main()) == used
