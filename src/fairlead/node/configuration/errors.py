"""Why a node agent does not start: what it says, and how far it came."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Where it stopped."""

    FLAGS = "flags"
    FILE = "file"
    VALIDATION = "validation"
    START = "start"
    ENFORCEMENT = "enforcement"


class StartupError(ValueError):
    """`str()` of it is the kubelet's message; the hint is ours, where a flag has another name today."""

    def __init__(self, stage: Stage, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.hint = hint
