"""The recorded restarts of failing containers (golden/node/restart_backoff.yaml), with times in seconds."""

from __future__ import annotations

from typing import Any

import yaml

from tests.conftest import GOLDEN


def rows() -> list[dict[str, Any]]:
    text = (GOLDEN / "node" / "restart_backoff.yaml").read_text()
    found: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


def container_of(row: dict[str, Any]) -> str:
    """The container that fails."""
    return str(row.get("container") or row["pod"]["spec"]["containers"][0]["name"])
