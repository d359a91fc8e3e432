"""A certificate with its key: who shows one needs neither an authority nor the library that reads certificates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes
