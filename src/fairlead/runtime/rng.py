"""Randomness comes from one seeded source, so that any run can be replayed.

`uid()` and `name_suffix()` are the two random things that users see. A server seeds from the operating
system; a simulation and a test seed with a number. Several clusters may share a process: what `seeded` runs, and every
task that it starts, draws from a source of its own, which nobody else disturbs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: The alphabet of generated names: no vowels, so no words; no 0, 1, 3 (k8s.io/apimachinery/pkg/util/rand).
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_source: ContextVar[random.Random] = ContextVar("rng", default=random.Random())  # noqa: B039 - one for the process


def seed(value: int) -> None:
    """Start the sequence anew: the same seed gives the same uids and names."""
    source().seed(value)


@contextmanager
def seeded(value: int) -> Iterator[None]:
    """While the block runs, it has a sequence of its own that begins with that seed."""
    token = _source.set(random.Random(value))
    try:
        yield
    finally:
        _source.reset(token)


def source() -> random.Random:
    """The generator itself, for jitter and tie-breaks."""
    return _source.get()


def uid() -> str:
    """A version 4 UUID."""
    bits = source().getrandbits(128) & ~(0xF000 << 64) | (0x4000 << 64)
    bits = bits & ~(0xC000 << 48) | (0x8000 << 48)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def name_suffix(length: int = 5) -> str:
    """The random end of a generated name."""
    return "".join(source().choices(NAME_ALPHABET, k=length))
