"""What a dashboard shows is a source: a live cluster, or a run that was kept. The page does not care which."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

import msgspec

from fairlead.api.objects import Obj
from fairlead.dashboard.rows import Batch

#: Where it listens unless it is told otherwise.
DEFAULT_PORT: Final = 6480
#: So many rows are written at once, so that the others of this process get their turn.
TURN_ROWS: Final = 500


class UnknownPod(Exception):
    """There is no such pod, and nothing is known of one."""


class About(msgspec.Struct, omit_defaults=True):
    """What the page says of itself."""

    title: str
    is_live: bool = msgspec.field(name="isLive")
    #: Of a run; the first is the one that is shown at first.
    variants: Sequence[str] = ()
    #: What a reader must know to read it rightly.
    note: str = ""


class Chart(msgspec.Struct):
    """Figures over the time of a run, each in equal parts of it, and what was done in it."""

    began: float
    ended: float
    lines: dict[str, list[float]]
    marks: list[tuple[float, str]]
    #: What no pod of the page shows, as that there are fewer of them: sections of lines, the title first.
    findings: list[list[str]] = []


class Source(Protocol):
    about: About

    def batches(self, variant: str) -> AsyncGenerator[Batch | Chart | None, None]:
        """First all that is there, then what changes, until the caller stops; None now and then: there is no news."""
        ...

    async def why(self, key: str, variant: str) -> Obj:
        """What is known of a pod: a headline and more. Raises UnknownPod."""
        ...
