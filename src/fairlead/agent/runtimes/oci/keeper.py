"""conmon, the keeper of one container: it holds its streams, writes its log, and tells how it ended.

A keeper outlives the agent. So it must be in no cgroup of the agent's, or whoever limits or ends the agent takes the
containers along. And it lives in a copy of our mounts, in which the container's root is mounted: when the keeper ends,
however that happens, no mount is left behind. From the copy a cgroup2 hierarchy beside v1 is taken out, with which
crun 1.8 refuses to work (its containers have no cgroup there).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.processes import until_ready
from fairlead.agent.runtimes import overlay
from fairlead.agent.runtimes.base import SHARED, CannotStart, ContainerSpec, Mount, RuntimeFailure
from fairlead.agent.runtimes.oci.config import root_of
from fairlead.agent.runtimes.oci.layout import ContainerFiles
from fairlead.golang.quoting import go_quote

#: How long a container may take to be made.
CREATE_SECONDS: Final = 120.0
#: The variable that tells a keeper the number of the pipe for its report: conmon's name for it.
REPORT_TO: Final = "_OCI_SYNCPIPE"
_SHARING: Final = Path(__file__).with_name("sharing_process.py")
#: The longest report of a keeper.
_LONGEST_REPORT: Final = 1 << 16
#: Arguments: cgroup folders, where a cgroup2 is to be hidden, the layers' folder, options and target of the root; then
#: the keeper itself.
_LAUNCH: Final = """
for folder in $1; do echo $$ > "$folder/cgroup.procs" || exit 1; done
if [ -n "$2" ]; then umount "$2" || exit 1; fi
cd "$3" && mount -t overlay overlay -o "$4" "$5" || exit 1
cd / && shift 5 && exec "$@"
"""


class Programs(msgspec.Struct, frozen=True):
    """What has to be installed."""

    conmon: str
    #: By name, as RuntimeClasses call them: crun, runc or both; the first is the default.
    runtimes: Mapping[str, str]
    unshare: str = "unshare"


def find_programs() -> Programs:
    """RuntimeFailure says what to install."""
    conmon = shutil.which("conmon")
    runtimes = {name: program for name in ("crun", "runc") if (program := shutil.which(name))}
    if conmon is None or not runtimes:
        missing = "conmon" if conmon is None else "crun"
        raise RuntimeFailure(f"{missing} is not installed: apt-get install conmon crun")
    return Programs(conmon, runtimes)


class Keepers(msgspec.Struct, frozen=True):
    """Starts keepers."""

    programs: Programs
    #: crun or runc.
    runtime: str
    state: Path
    hierarchies: Hierarchies
    #: The cgroup in which keepers are.
    cgroup: str

    async def create(self, spec: ContainerSpec, files: ContainerFiles) -> int:
        """Make the container, which waits to be started; the pid of its first process."""
        report = await reported(self._command(spec, files), files.problems)
        return self._pid(report, files)

    @property
    def cgroup_folders(self) -> Sequence[Path]:
        return [root / self.cgroup.strip("/") for root in self.hierarchies.roots]

    def _command(self, spec: ContainerSpec, files: ContainerFiles) -> Sequence[str]:
        folders = " ".join(map(str, self.cgroup_folders))
        hidden = self.hierarchies.unified
        base = _common_folder(spec.layers)
        layers = [str(layer.relative_to(base)) or "." for layer in spec.layers]
        options = overlay.options(layers, str(files.upper), str(files.work))
        launch = [self.programs.unshare, "--mount", *_propagation(spec.mounts), "sh", "-c", _LAUNCH, "sh"]
        conmon = self._conmon(spec, files)
        return [*launch, folders, str(hidden or ""), str(base), options, str(root_of(spec, files)), *conmon]

    def _conmon(self, spec: ContainerSpec, files: ContainerFiles) -> Sequence[str]:
        return [
            self.programs.conmon,
            *("--api-version", "1", "--cid", spec.id, "--cuuid", spec.id, "--name", spec.name),
            *("--runtime", self.runtime, "--runtime-arg", f"--root={self.state}"),
            *("--bundle", str(files.folder), "--container-pidfile", str(files.pid)),
            *("--conmon-pidfile", str(files.keeper_pid), "--exit-dir", str(files.exit.parent)),
            *("--persist-dir", str(files.persist), "--log-path", f"k8s-file:{spec.log}", "--log-level", "warning"),
            *("--full-attach", "--no-sync-log"),
            *(["--terminal"] if spec.has_tty else []),
            *(["--stdin"] if spec.has_stdin else []),
            *(["--leave-stdin-open"] if spec.has_stdin and not spec.has_stdin_once else []),
        ]

    def _pid(self, report: bytes, files: ContainerFiles) -> int:
        try:
            found = json.loads(report.splitlines()[-1])
            pid = int(found["data"])
        except (IndexError, KeyError, ValueError):
            said = files.problems.read_text(errors="replace").strip()[-1000:] if files.problems.exists() else ""
            raise RuntimeFailure(said or "the container could not be created") from None
        if pid <= 0:
            raise CannotStart(str(found.get("message") or "the container could not be created").strip())
        return pid


async def reported(command: Sequence[str], problems: Path) -> bytes:
    """Launch a keeper, which goes on by itself: what it has to report of its container.

    It is told by `REPORT_TO` where. What it says besides is added to the file `problems`.
    """
    launching = asyncio.get_running_loop().run_in_executor(None, _launch, command, problems)
    try:
        reading = await asyncio.shield(launching)
    except asyncio.CancelledError:  # the thread goes on, and has the pipe until it is done
        launching.add_done_callback(_close_report)
        raise
    try:
        async with asyncio.timeout(CREATE_SECONDS):  # wait_for may forget that it was cancelled, before Python 3.12
            return await read_report(reading)
    finally:
        os.close(reading)


def _launch(command: Sequence[str], problems: Path) -> int:
    """Where the keeper reports: the reading end of a pipe.

    By the standard library: uvloop's processes inherit copies of our streams, and a keeper would hold them open.
    """
    reading, writing = os.pipe()
    try:
        with problems.open("ab") as errors:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[writing],
                env={**os.environ, REPORT_TO: str(writing)},
                start_new_session=True,
                cwd="/",
            )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def _close_report(launched: asyncio.Future[int]) -> None:
    if not launched.cancelled() and launched.exception() is None:
        os.close(launched.result())


async def read_report(descriptor: int) -> bytes:
    """What stands in that pipe once something does, empty if it has ended.

    Not by `connect_read_pipe`: uvloop closes what that is given twice, and the second time the number may be another
    thread's.
    """
    loop = asyncio.get_running_loop()
    await until_ready(descriptor, loop.add_reader, loop.remove_reader)
    return os.read(descriptor, _LONGEST_REPORT)


def _propagation(mounts: Sequence[Mount]) -> Sequence[str]:
    """Whether what is mounted in its copy of our mounts shows here; RuntimeFailure where that cannot be."""
    shared = [mount.source for mount in mounts if mount.propagation == SHARED]
    if not shared:
        return "--propagation", "slave"
    for source in shared:
        point, is_shared = linux.mount_of(source)
        if not is_shared:
            where = f"path {go_quote(str(source))} is mounted on {go_quote(str(point))}"
            raise RuntimeFailure(f"{where} but it is not a shared mount")
    return "--propagation", "unchanged", sys.executable, "-I", "-S", str(_SHARING), *map(str, shared), "--"


def _common_folder(layers: Sequence[Path]) -> Path:
    """From where the layers have short names: the kernel takes 4 KiB of options, and an image may have 127 layers."""
    return Path(os.path.commonpath([layer.parent for layer in layers]))
