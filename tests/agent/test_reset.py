"""What is left of a node is removed, whatever has gone before."""

from __future__ import annotations

from pathlib import Path

from fairlead.agent.reset import Removed, reset
from fairlead.agent.runtimes.oci.runtime import OWN_MOUNT
from tests.agent.machine import real_containers


@real_containers
def test_a_node_that_has_not_run_since_its_machine_was_started_is_removed(tmp_path: Path) -> None:
    """Its folder was a mount of its own then. Whoever has no root meets it as well: their mounts end with them."""
    root = tmp_path / "node"
    root.mkdir()
    (root / OWN_MOUNT).touch()
    assert reset(root) == Removed(0, 0)
    assert not root.exists()
