"""Randomness comes from one seed, so that any run can be replayed.

`uid()` and `name_suffix()` are the two random things that users see. They and the choices of components draw from
sequences of their own: who writes an event more, or makes an object more, changes no decision, so that runs that differ
in one thing can be compared. A server seeds from the operating system; a simulation and a test seed with a number.
Several clusters may share a process: what `seeded` runs, and every task that it starts, draws from its own sequences,
which nobody else disturbs.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: The alphabet of generated names: no vowels, so no words; no 0, 1, 3 (k8s.io/apimachinery/pkg/util/rand).
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class _Sequences:
    def __init__(self) -> None:
        self.choices, self.names, self.uids = random.Random(), random.Random(), random.Random()

    def begin(self, seed: int) -> None:
        self.choices.seed(seed)
        self.names.seed(f"names {seed}")
        self.uids.seed(f"uids {seed}")


_sequences: ContextVar[_Sequences] = ContextVar("rng", default=_Sequences())  # noqa: B039 - one for the process


def seed(value: int) -> None:
    """Start the sequences anew: the same seed gives the same uids, names and choices."""
    _sequences.get().begin(value)


@contextmanager
def seeded(value: int) -> Iterator[None]:
    """While the block runs, it has sequences of its own that begin with that seed."""
    own = _Sequences()
    own.begin(value)
    token = _sequences.set(own)
    try:
        yield
    finally:
        _sequences.reset(token)


def source() -> random.Random:
    """The generator of choices, for jitter and tie-breaks."""
    return _sequences.get().choices


def uid() -> str:
    """A version 4 UUID."""
    bits = _sequences.get().uids.getrandbits(128) & ~(0xF000 << 64) | (0x4000 << 64)
    bits = bits & ~(0xC000 << 48) | (0x8000 << 48)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def diverge_from(uids: Iterable[str]) -> None:
    """Uids to come are none of these, which may be of an earlier run with the same seed; in whatever order they are."""
    drawn = hashlib.sha256("\n".join(sorted(uids)).encode(errors="backslashreplace")).hexdigest()
    sequence = _sequences.get().uids
    sequence.seed(f"{sequence.getrandbits(128)} {drawn}")


def name_suffix(length: int = 5) -> str:
    """The random end of a generated name."""
    return "".join(_sequences.get().names.choices(NAME_ALPHABET, k=length))
