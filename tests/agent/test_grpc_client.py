"""Calls that are cancelled just as their connection ends, as when an agent ends, or a plugin has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.devices.messages import HEALTHY, WATCH_HEALTH, Claim, Claims, prepare
from fairlead.agent.grpc.client import Client, Unreachable
from fairlead.agent.grpc.methods import Nothing
from tests.agent.device_driver import V1, Driver, serving
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop


async def listening(client: Client) -> None:
    async for _ in client.stream(WATCH_HEALTH, Nothing()):
        pass


async def asking(client: Client) -> None:
    await client.call(prepare(V1), Claims(claims=[Claim(namespace="n", uid="u", name="c")]))


@pytest.mark.parametrize("wait", [listening, asking])
@pytest.mark.parametrize("is_closed_first", [False, True])
@in_loop
async def test_who_is_cancelled_as_the_connection_ends_hears_that_he_is(
    short: Path, wait: Any, is_closed_first: bool
) -> None:
    """He would go on, and connect anew: whoever ended him waited for ever."""
    driver = Driver(short, tells_health=True)
    async with serving(driver):
        waiting = await begun(driver, client := Client(str(driver.socket)), wait(client))
        if is_closed_first:
            client.close()
        waiting.cancel()
        client.close()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        driver.goes_on.set()


@pytest.mark.parametrize("wait", [listening, asking])
@in_loop
async def test_who_is_not_cancelled_hears_that_the_connection_has_ended(short: Path, wait: Any) -> None:
    driver = Driver(short, tells_health=True)
    async with serving(driver):
        waiting = await begun(driver, client := Client(str(driver.socket)), wait(client))
        client.close()
        (failure,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(failure, Unreachable)
        driver.goes_on.set()


async def begun(driver: Driver, client: Client, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """It waits for an answer."""
    driver.goes_on.clear()
    driver.becomes(HEALTHY)
    waiting = asyncio.create_task(work)
    async with asyncio.timeout(20):
        while not driver.asked and not driver._healths.empty():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    return waiting
