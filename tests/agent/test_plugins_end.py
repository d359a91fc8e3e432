"""Whoever listens to plugins ends when he is ended, also with all others at once, and in whichever order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairlead.agent.device_plugins.manager import DEVICE_PLUGIN, FOLDER, SOCKET, DevicePlugins
from fairlead.agent.devices.claims import ClaimManager
from fairlead.agent.devices.drivers import DRA, DeviceDrivers
from fairlead.agent.devices.messages import HEALTHY
from fairlead.agent.plugins.sockets import PluginSockets
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.agent.device_driver import Driver, serving
from tests.agent.device_driver import short as short
from tests.agent.device_plugin import FakePlugin, listening
from tests.agent.machine import in_loop
from tests.agent.test_device_plugins import has, pod, until


@pytest.mark.parametrize("seed", range(4))
@in_loop
async def test_all_who_listen_to_plugins_end_when_everybody_is_ended(short: Path, seed: int) -> None:
    """Where drivers were closed before those that listened to them heard that they had to end, these went on."""
    random, before = Random(seed), asyncio.all_tasks()
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    drivers, plugins = DeviceDrivers(server.api, "n"), DevicePlugins(short)
    claims = ClaimManager(short, server.api, drivers)
    sockets = PluginSockets(short, {DRA: drivers, DEVICE_PLUGIN: plugins})
    parts: list[asyncio.Task[Any]] = [asyncio.create_task(each.run()) for each in (drivers, plugins, sockets)]
    parts.append(asyncio.create_task(claims.run(lambda uid: True)))
    await until((short / FOLDER / SOCKET).exists)
    driver, plugin = Driver(short, tells_health=True), FakePlugin(short)
    async with serving(driver), listening(plugin, is_watched_for=True):
        await until(has(plugins, 3, 3))
        await until(lambda: bool(driver.told))
        driver.becomes(HEALTHY)
        plugin.goes_on.clear()
        parts.append(asyncio.create_task(plugins.allocate(pod("p"))))
        await until(lambda: bool(plugin.asked))
        for _ in range(random.randrange(10)):
            await asyncio.sleep(0)
        tasks = sorted(asyncio.all_tasks() - before, key=lambda task: task.get_name())
        random.shuffle(tasks)
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=10)
        assert not left
        assert all(part.cancelled() for part in parts)
