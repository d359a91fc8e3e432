"""A token bucket: limits the rate, with bursts (client-go's flowcontrol, golang.org/x/time/rate)."""

from __future__ import annotations


class TokenBucket:
    """Starts full. The caller passes the time, so it works with any clock."""

    __slots__ = ("_burst", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._filled_at = burst, now

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Takes that many tokens if they are there; otherwise returns False and takes none."""
        self._fill(now)
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True

    def borrow(self, now: float) -> float:
        """Takes a token that may not be there yet; how long until it is (seconds)."""
        self._fill(now)
        self._tokens -= 1.0
        return max(-self._tokens / self._per_second, 0.0)

    def _fill(self, now: float) -> None:
        passed = max(now - self._filled_at, 0.0)  # the clock may have been set back
        self._tokens = min(self._burst, self._tokens + passed * self._per_second)
        self._filled_at = now
