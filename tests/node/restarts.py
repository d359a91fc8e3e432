"""The recorded restarts of failing containers (golden/node/restart_backoff.yaml), with times in seconds."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.conftest import GOLDEN

_UNITS = {"h": 3600, "m": 60, "s": 1}


def rows() -> list[dict[str, Any]]:
    text = (GOLDEN / "node" / "restart_backoff.yaml").read_text()
    found: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


def seconds(text: str) -> int:
    return sum(int(amount) * _UNITS[unit] for amount, unit in re.findall(r"(\d+)([hms])", text))


def container_of(row: dict[str, Any]) -> str:
    """The container that fails."""
    return str(row.get("container") or row["pod"]["spec"]["containers"][0]["name"])
