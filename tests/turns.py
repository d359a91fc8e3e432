"""For how many turns of the loop something takes: whether others get theirs meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def counting_turns(work: Awaitable[T]) -> tuple[T, int]:
    """What comes of the work, and how many turns others had until then."""
    turns = 0

    async def bystander() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    meanwhile = asyncio.create_task(bystander())
    try:
        return await work, turns
    finally:
        meanwhile.cancel()
