"""Wording that all texts for people share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 node, 3 nodes, 1,312 pods."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
