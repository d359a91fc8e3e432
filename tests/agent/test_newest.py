"""What is heard of one who tells something anew again and again: in virtual time, to see when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fairlead.agent.devices.health import DeviceHealths
from fairlead.agent.devices.messages import HEALTHY, DeviceHealth, DeviceIdentifier
from fairlead.agent.grpc.newest import newest
from fairlead.api.devices import DeviceId
from fairlead.runtime.clock import monotonic, now
from fairlead.runtime.loops import run_virtual


def test_the_last_of_what_comes_meanwhile_is_heard_once_a_second() -> None:
    async def told() -> AsyncIterator[bytes]:
        yield b"first"
        for number in range(100):
            yield b"%d" % number
        await asyncio.sleep(0.5)
        yield b"last"
        await asyncio.sleep(9.5)
        yield b"late"
        await asyncio.sleep(5)

    async def main() -> list[tuple[float, bytes]]:
        return [(round(monotonic(), 3), data) async for data in newest(told(), 1.0)]

    assert run_virtual(main()) == [(0.0, b"first"), (1.0, b"last"), (10.0, b"late")]


def test_who_tells_more_than_that_has_to_wait() -> None:
    """A thousand messages in a second, or a megabyte."""
    read = 0

    async def main(size: int) -> list[int]:
        nonlocal read
        read = 0

        async def told() -> AsyncIterator[bytes]:
            nonlocal read
            while True:
                read += 1
                yield b"%d" % read * size

        counts = []
        async for _ in newest(told(), 1.0):
            counts.append(read)
            if len(counts) == 3:
                break
        return counts

    assert run_virtual(main(1))[-1] <= 2 * 1030
    assert run_virtual(main(100_000))[-1] <= 2 * 12


def test_what_was_told_before_the_end_is_no_news_after_it() -> None:
    async def told() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"
        raise ConnectionError("gone")

    async def main() -> list[bytes]:
        heard = []
        try:
            async for data in newest(told(), 1.0):
                heard.append(data)
        except ConnectionError:
            return heard
        raise AssertionError("nobody was told that it has gone")

    assert run_virtual(main()) == [b"one"]


def test_devices_that_a_driver_calls_otherwise_each_time_are_forgotten() -> None:
    async def main() -> None:
        healths, told = DeviceHealths(), list[DeviceId]()
        healths.subscribe(told.extend)

        async def tell(*names: str) -> None:
            at = int(now())
            devices = [DeviceIdentifier(pool_name="p", device_name=name) for name in names]
            await healths.told(
                "d", [DeviceHealth(device=each, health=HEALTHY, last_updated_time=at) for each in devices]
            )

        for number in range(100):
            await tell(f"device-{number}")
            await asyncio.sleep(1)
        assert healths.of(("d", "p", "device-90")) == {"health": "Healthy"}
        assert healths.of(("d", "p", "device-40")) == {"health": "Unknown"}
        await asyncio.sleep(60)
        await tell("another")
        healths.forget("d")
        assert told[-1] == ("d", "p", "another")
        assert len(told) == 102  # each as it came, and those that were left
        for number in range(30):
            await tell(*(f"device-{number}-{each}" for each in range(1000)))
        told.clear()
        healths.forget("d")
        assert len(told) <= 11_000

    run_virtual(main())
