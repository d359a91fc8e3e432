"""Configuration files that count anew when they change, as kube-apiserver's do. One that is wrong changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead.runtime.offload import offload

#: How often it is looked whether a file says something else.
_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


async def follow(file: Path, known: bytes, apply: Callable[[bytes], None]) -> None:
    """Give what a file says to `apply` whenever it is not what is known, until cancelled."""
    while True:
        await asyncio.sleep(_SECONDS)
        try:
            data = await offload(file.read_bytes, is_long=True)
            if data != known:
                known = data
                apply(data)
        except (OSError, ValueError) as error:
            log.error("%s does not count: %s", file, error)
