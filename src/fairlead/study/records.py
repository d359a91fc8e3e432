"""Runs that are kept: what was played and what came of it, so that questions can be asked afterwards.

A run is a gzipped JSON file, named after its digest; equal runs are equal files. They lie in one folder of the user's
(`$FAIRLEAD_RUNS`, else `$XDG_STATE_HOME/fairlead/runs`), of which only the latest are kept.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec

from fairlead.runtime.user_folders import state_folder
from fairlead.runtime.whole_files import written_whole
from fairlead.study.outcome import Outcome

_FORMAT: Final = 3
_MOST_KEPT: Final = 50
_SUFFIX: Final = ".json.gz"


class Run(msgspec.Struct):
    """All variants of one study; the first is that without a change."""

    seed: int
    outcomes: Annotated[list[Outcome], msgspec.Meta(min_length=1)]
    #: Of a bisection: the value that it found, empty if none meets the rules. None: nothing was looked for.
    found: str | None = None
    format: int = _FORMAT

    @property
    def before(self) -> Outcome:
        return self.outcomes[0]

    @property
    def variants(self) -> Sequence[Outcome]:
        return self.outcomes[1:]

    @property
    def digest(self) -> str:
        """Of everything that happened to every pod of every variant: equal runs have equal digests."""
        if len(self.outcomes) == 1:
            return self.before.digest
        parts = "".join(f"{outcome.name} {outcome.digest}\n" for outcome in self.outcomes)
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def name(self) -> str:
        return f"run-{self.digest[:8]}"


class _AnyRun(msgspec.Struct):
    """Of a run of any version."""

    format: int


class UnknownRun(ValueError):
    """There is no such run, or it cannot be read."""


def folder() -> Path:
    """Where runs are kept. Raises NoHome."""
    if own := os.environ.get("FAIRLEAD_RUNS"):
        return Path(own)
    return state_folder() / "runs"


def save(run: Run, path: Path | None = None) -> Path:
    """Into a file of one's own, or among those that are kept. Raises OSError."""
    target = path or folder() / f"{run.name}{_SUFFIX}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as file:
        file.write(gzip.compress(msgspec.json.encode(run), 6, mtime=0))
    if path is None:
        _forget_oldest(target.parent)
    return target


def load(name: str) -> Run:
    """By its name (or the beginning of it), or by its path. Raises UnknownRun."""
    path = Path(name)
    if not os.path.isfile(name):  # noqa: PTH113  (a Path raises OSError for a name that no file can have)
        kept = folder().glob(f"*{_SUFFIX}") if name else ()
        found = sorted(entry for entry in kept if entry.name.startswith(name))
        if not found:
            raise UnknownRun(f"there is no run {name!r} in {folder()}: fairlead simulate makes one")
        if len(found) > 1:
            names = ", ".join(entry.name.removesuffix(_SUFFIX) for entry in found)
            raise UnknownRun(f"{name!r} is the beginning of several runs: {names}")
        path = found[0]
    try:
        written = gzip.decompress(path.read_bytes())
        if msgspec.json.decode(written, type=_AnyRun).format != _FORMAT:
            raise UnknownRun(f"{path} is a run of another version of fairlead: simulate it again")
        return msgspec.json.decode(written, type=Run)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, msgspec.MsgspecError) as error:
        raise UnknownRun(f"{path} is no run of fairlead simulate, or is damaged: {error}") from None


def _forget_oldest(runs: Path) -> None:
    """Others may do the same at this time."""
    ages: dict[Path, float] = {}
    for entry in runs.glob(f"run-*{_SUFFIX}"):
        with suppress(FileNotFoundError):
            ages[entry] = entry.stat().st_mtime
    for entry in sorted(ages, key=ages.__getitem__)[:-_MOST_KEPT]:
        entry.unlink(missing_ok=True)
