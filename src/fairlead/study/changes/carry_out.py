"""Carries out the steps of a change, each at its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fairlead.runtime.clock import monotonic
from fairlead.study.changes.changed_cluster import ChangedCluster, NothingThere
from fairlead.study.changes.document import Step
from fairlead.study.changes.errors import ChangeError


async def carry_out(
    steps: Sequence[Step],
    cluster: ChangedCluster,
    on_step: Callable[[Step], Callable[[], None]],
    done: asyncio.Event,
) -> None:
    """`on_step` is told of each step when it begins, and what it returns of its end; `done` is set once all have ended
    that ever end.

    Raises ChangeError for a step that the cluster has nothing for.
    """
    began = monotonic()
    async with asyncio.TaskGroup() as group:
        ending: list[asyncio.Task[None]] = []
        for step in steps:
            await asyncio.sleep(max(began + step.at - monotonic(), 0.0))
            on_end = on_step(step)
            if step.action.is_long:
                task = group.create_task(_run(step, cluster, on_end))
                ending += [] if step.action.is_endless else [task]
            else:
                await _run(step, cluster, on_end)
        await asyncio.gather(*ending)
        done.set()


async def _run(step: Step, cluster: ChangedCluster, on_end: Callable[[], None]) -> None:
    try:
        await step.action.run(cluster)
        on_end()
    except NothingThere as problem:
        raise ChangeError(step.origin, str(problem)) from None
    except BaseExceptionGroup as group:
        raise _changed(step, group) from None


def _changed(step: Step, group: BaseExceptionGroup) -> BaseException:
    """Of several problems at once the first is told."""
    first = group.exceptions[0]
    return ChangeError(step.origin, str(first)) if isinstance(first, NothingThere) else first
