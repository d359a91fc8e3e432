"""The two types of an Event."""

from __future__ import annotations

from typing import Final

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
