"""What a container that failed said last, as its status shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.machine import in_loop
from tests.agent.oci_node import is_phase, manifest, real_node, state
from tests.agent.runtime_place import on_each


@pytest.mark.parametrize(("script", "told"), [("echo -n DONE", "DONE"), ("echo one; echo two", "one\ntwo\n")])
@on_each
@in_loop
async def test_the_end_of_the_log_is_told_as_it_was_written(tmp_path: Path, kind: str, script: str, told: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await node.create(manifest("p", "sh", "-c", f"{script}; exit 1", spec={"restartPolicy": "Never"}, **policy))
        pod = await node.until("p", is_phase("Failed"))
        assert state(pod)["state"]["terminated"]["message"] == told
