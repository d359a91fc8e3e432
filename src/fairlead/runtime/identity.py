"""A certificate with its key: who shows one needs neither an authority nor the library that reads certificates."""

from __future__ import annotations

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes
