"""A token bucket: so much at once, and so much on the average (client-go's flowcontrol, golang.org/x/time/rate)."""

from __future__ import annotations


class TokenBucket:
    """Full at first. Times are the caller's, so it may be that of a virtual clock or of what happened."""

    __slots__ = ("_burst", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._filled_at = burst, now

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Whether there was that much; it is taken all or not at all."""
        passed = max(now - self._filled_at, 0.0)  # somebody may have set the clock back
        self._tokens = min(self._burst, self._tokens + passed * self._per_second)
        self._filled_at = now
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True
