"""Why pods wait for their volumes."""

from __future__ import annotations


class VolumeProblem(Exception):
    """Why a volume cannot be set up; an event calls it by that name, or as the pod does if it has none."""

    volume: str = ""


class ClaimProblem(Exception):
    """Why a claim cannot be used, as a whole sentence of an event."""
