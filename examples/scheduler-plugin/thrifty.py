"""A scheduler plugin: prefer cheap nodes, and keep pods that are in a hurry off spot machines."""

import numpy as np

from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.framework import MAX_NODE_SCORE, EventKind, PodRelationPlugin


class ThriftyArguments(Arguments):
    label: str = "cost"


class Thrifty(PodRelationPlugin):
    name = "Thrifty"
    reason = "node(s) may be taken away at any time"
    events = EventKind.NODE_ADDED | EventKind.NODE_LABELS
    arguments = ThriftyArguments

    def __init__(self, label: str = "cost") -> None:
        self._label = label

    @classmethod
    def configured(cls, args: ThriftyArguments) -> "Thrifty":
        return cls(args.label)

    def filters(self, request, snapshot):
        return request.relations.labels.get("hurry") == "true"

    def filter(self, request, snapshot, rows):
        return snapshot.labels("spot").map(rows, lambda value: value != "true") != 0

    def scores(self, request, snapshot):
        return True

    def score(self, request, snapshot, rows):
        costs = snapshot.labels(self._label).map(
            rows, lambda value: int(value) if (value or "").isdigit() else MAX_NODE_SCORE
        )
        return np.clip(MAX_NODE_SCORE - costs, 0, MAX_NODE_SCORE)
