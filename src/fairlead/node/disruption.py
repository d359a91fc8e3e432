"""How a pod shows that its node ended it."""

from __future__ import annotations

from fairlead.api.objects import Obj


def disruption(message: str) -> Obj:
    """The condition, until its time is known."""
    return {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
