"""What the recorded restarts of failing containers are about (golden/node/restart_backoff.yaml)."""

from __future__ import annotations

from tests.node.golden import Row


def container_of(row: Row) -> str:
    """The container that fails."""
    return str(row.get("container") or row["pod"]["spec"]["containers"][0]["name"])
