"""What these tests need of the machine; where it is missing they are skipped, and say what they miss."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec

import pytest
import yaml

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import NoCgroups, hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.runtime.loops import run

Parameters = ParamSpec("Parameters")
#: No test takes longer.
LONGEST_SECONDS = 120.0

_PROGRAMS = ("conmon", "crun", "busybox", "unshare")
#: The commands of busybox that the containers of tests use.
_COMMANDS = (
    "sh cat cp dd echo env grep head hostname id ls mkdir nc mount ps rm sleep stty tail test touch true false wget"
)


@lru_cache
def missing() -> str:
    """Why real containers cannot be run here; empty if they can."""
    if os.geteuid() != 0:
        return "real containers need root"
    if absent := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"real containers need {', '.join(absent)} (apt-get install conmon crun busybox-static)"
    try:
        hierarchies()
    except NoCgroups as error:
        return str(error)
    return ""


real_containers = pytest.mark.skipif(bool(missing()), reason=missing())


def root_file_system(folder: Path) -> Path:
    """A root file system with busybox alone."""
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(shutil.which("busybox") or "", folder / "bin/busybox")
    for name in _COMMANDS.split():
        (folder / "bin" / name).symlink_to("busybox")
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:app:/home/app:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\napps:x:1001:\naudio:x:29:app\n")
    return folder


#: What keeps the disk and the memory of the machine that runs the tests out of them: nobody is evicted for a shortage,
#: nor an image removed; it may have swap, and a kubelet of its own.
NO_RECLAIM: dict[str, Any] = {
    "evictionHard": {"memory.available": "0%"},
    "imageGCHighThresholdPercent": 100,
    "failSwapOn": False,
    "healthzPort": 0,
}


def write_configuration(path: Path, cgroup: str) -> None:
    """The file of a node whose pods live below `cgroup`, however full this machine is."""
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    path.write_text(yaml.safe_dump({**kind, "cgroupRoot": cgroup, "failCgroupV1": False, **NO_RECLAIM}))


@contextmanager
def own_cgroup(cgroups: Cgroups) -> Iterator[str]:
    """A cgroup for one test, of which nothing is left when the block ends."""
    path = f"/fairlead-test-{uuid.uuid4().hex[:8]}"
    try:
        yield path
    finally:
        for _ in range(500):  # what was killed takes a moment on a busy machine
            cgroups.kill(path)
            if cgroups.remove(path):
                break
            time.sleep(0.02)
        assert not cgroups.exists(path)


def in_loop(test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """A test that waits, in a loop of its own."""

    @functools.wraps(test)
    def run_it(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        run(asyncio.wait_for(test(*args, **kwargs), LONGEST_SECONDS))

    return run_it


async def until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return once it is so; TimeoutError if it never is."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110  (the kernel tells nobody)
            await asyncio.sleep(0.02)


def mounts_below(folder: Path) -> list[Path]:
    return linux.mount_points(folder)
