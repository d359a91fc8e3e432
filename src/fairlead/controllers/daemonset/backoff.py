"""How long to leave a node alone where daemon pods keep failing.

A kubelet that rejects a pod would have it replaced at once, for ever; so each failure on a node doubles the wait
before the next replacement (client-go's flowcontrol.Backoff, 1 s to 15 min).
"""

from __future__ import annotations

from typing import Final

import msgspec

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 900.0


class _Failure(msgspec.Struct):
    wait: float
    at: float


class FailureBackoff:
    """Waits by key; a cache that may be lost, which only makes the next replacement come sooner."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failure] = {}

    def wait(self, key: tuple[str, str], now: float) -> float:
        """How much longer to wait; 0 if a replacement may be made now, which then counts as one more failure."""
        known = self._failures.get(key)
        if known is None or now - known.at > 2 * _LONGEST_SECONDS:
            self._failures[key] = _Failure(_FIRST_SECONDS, now)
            return 0.0
        if now - known.at < known.wait:
            return known.wait - (now - known.at)
        known.wait, known.at = min(known.wait * 2, _LONGEST_SECONDS), now
        return 0.0

    def forget(self, owner: str) -> None:
        """The daemon set with that uid is gone."""
        self._failures = {key: failure for key, failure in self._failures.items() if key[0] != owner}
