"""What only the runtime of conmon and crun can do wrong; the rest is tested in `test_runtimes.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.agent import linux
from tests.agent.machine import in_loop, real_containers
from tests.agent.runtime_place import OCI, place

pytestmark = real_containers


@in_loop
async def test_an_agent_that_died_halfway_leaves_nothing(tmp_path: Path) -> None:
    """Remnants without a record: of a container that was being made, and of a sandbox."""
    async with place(tmp_path, OCI) as here:
        id_ = await here.run("c1", "sleep", "1000")
        pid = here.found("c1").pid
        (here.root / f"containers/{id_}/container.json").unlink()
        half = here.root / "sandboxes/u2"
        (half / "shm").mkdir(parents=True)
        linux.mount("shm", half / "shm", "tmpfs")
        here.close()
        await here.open()
        assert here.runtime.containers() == [] and not half.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@in_loop
async def test_what_is_no_folder_of_a_container_or_sandbox_keeps_no_agent_from_starting(tmp_path: Path) -> None:
    async with place(tmp_path, OCI) as here:
        id_ = await here.run("c1", "sleep", "1000")
        (here.root / "containers/notes").touch()
        (here.root / "sandboxes/notes").touch()
        (here.root / "containers/odd/container.json").mkdir(parents=True)
        here.close()
        await here.open()
        assert [status.id for status in here.runtime.containers()] == [id_]
