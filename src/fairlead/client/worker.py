"""How the tasks of nodes work off their queues: one way for pods, machines and nodes that are taken up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fairlead.api.errors import ApiError, Conflict, NotFound
from fairlead.runtime.watchdog import working_on
from fairlead.runtime.workqueue import WorkQueue

log = logging.getLogger(__name__)


async def work_off(queue: WorkQueue[str], noun: str, step: Callable[[str], Awaitable[None]]) -> None:
    """Take a step for key after key, until cancelled; what fails is tried again. `noun`: what the keys are of."""
    while True:
        key = await queue.get()
        working_on("node", key)
        try:
            await step(key)
        except NotFound:
            pass  # the object is gone; its delete event follows
        except Conflict:  # it changed meanwhile, or our own last update has not come back yet
            queue.retry(key)
        except (ApiError, OSError) as error:
            log.warning("%s %s: %s", noun, key, error)
            queue.retry(key)
        except Exception:  # a bug on the path of one object must not stop all nodes
            log.exception("%s %s: unexpected error, trying again", noun, key)
            queue.retry(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)
        await asyncio.sleep(0)  # most steps wait for nothing, and ten thousand objects may have one at once
