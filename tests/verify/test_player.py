"""The player does what a plan says, as the system sees it."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.sim.machine.rotated_logs import PACKED
from fairlead.verify import player as players
from fairlead.verify.player import NoPlayer, player

MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the usage player takes a C compiler (apt-get install gcc libc6-dev)"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return player(tmp_path_factory.mktemp("player"))


class Playing:
    def __init__(self, program: Path, folder: Path, *lines: str) -> None:
        plan = folder / "plan"
        plan.write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen([program, plan], stdout=subprocess.PIPE)

    def anonymous(self) -> int:
        """Bytes; those of the program and its libraries are not among them."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return 0

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def cpu_seconds(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def until(self, is_so: Callable[[], bool], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.fixture
def play(program: Path, tmp_path: Path) -> Iterator[Callable[..., Playing]]:
    begun: list[Playing] = []

    def begin(*lines: str) -> Playing:
        begun.append(Playing(program, tmp_path, *lines))
        return begun[-1]

    yield begin
    for playing in begun:
        playing.process.kill()
        playing.process.wait()


def test_memory_rises_and_falls_as_planned(play: Callable[..., Playing]) -> None:
    playing = play(f"age memory - 0 {20 * MIB} 1 {60 * MIB} 3 {10 * MIB}")
    for amount in (20 * MIB, 60 * MIB, 10 * MIB):  # what the kernel keeps for it counts as well
        playing.until(lambda amount=amount: amount - MIB < playing.anonymous() <= amount)  # type: ignore[misc]


def test_disk_cache_and_inodes_are_used(play: Callable[..., Playing], tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    inodes, active = f"age inodes {tmp_path} 0 5 2 2", f"age active {tmp_path} 0 {MIB}"
    playing = play(f"age file {tmp_path}/v 0 {3 * MIB} 2 {MIB}", inodes, active)

    def is_there(disk: int, files: int) -> bool:
        used = sum(path.stat().st_blocks * 512 for path in (tmp_path / "v").iterdir())
        return disk <= used < disk + MIB and len(list(tmp_path.glob(".inode-*"))) == files

    playing.until(lambda: is_there(3 * MIB, 5))
    playing.until(lambda: is_there(MIB, 2))
    sparse = (tmp_path / ".active").stat()
    assert (sparse.st_size, sparse.st_blocks) == (MIB, 0)


def test_a_child_has_memory_of_its_own(play: Callable[..., Playing]) -> None:
    playing = play(f"age memory - 0 {MIB}", f"age child - 0 {30 * MIB}")
    children = Path(f"/proc/{playing.process.pid}/task/{playing.process.pid}/children")
    playing.until(lambda: bool(children.read_text()))
    (child,) = children.read_text().split()
    statm = Path(f"/proc/{child}/statm")
    playing.until(lambda: int(statm.read_text().split()[1]) * _PAGE >= 29 * MIB)
    os.kill(int(child), signal.SIGKILL)
    playing.until(lambda: not children.read_text())
    assert playing.process.poll() is None


def test_processes_are_threads_and_cpu_is_a_share_of_cores(play: Callable[..., Playing]) -> None:
    playing = play("age pids - 0 5", "age cpu - 0 0.2")
    playing.until(lambda: playing.threads() == 6)  # those that are counted, and one that works
    before, began = playing.cpu_seconds(), time.monotonic()
    time.sleep(1.5)
    assert (playing.cpu_seconds() - before) / (time.monotonic() - began) < 0.3


def test_logs_are_printed(play: Callable[..., Playing]) -> None:
    playing = play("age logs - 0 10000", "end 0.5 0")
    assert playing.process.stdout is not None
    lines = playing.process.stdout.read().splitlines()
    assert len(lines) == 10
    assert {len(line) for line in lines} == {1000 - 46 - 1}  # with the keeper's prefix and the newline it is 1000


def test_logs_are_packed_as_a_prediction_has_it(play: Callable[..., Playing]) -> None:
    playing = play("age logs - 0 2000000", "end 1 0")
    assert playing.process.stdout is not None
    log = b"".join(
        b"2026-11-28T04:05:%02d.%09d+00:00 stdout F %s" % (number // 60, hash(line) % 10**9, line)
        for number, line in enumerate(playing.process.stdout)
    )
    assert len(log) > 1_900_000
    assert abs(len(gzip.compress(log, 6)) / len(log) - PACKED) < 0.01


def test_it_ends_as_planned(play: Callable[..., Playing]) -> None:
    assert play("end 0.2 7").process.wait(20) == 7
    began = time.monotonic()
    assert play(f"origin {time.time() + 1!r}", "end 0.1 0").process.wait(20) == 0
    assert time.monotonic() - began > 1.0


def test_it_takes_its_time_to_stop(play: Callable[..., Playing]) -> None:
    playing = play("stop 0.5 42", f"age memory - 0 {5 * MIB}")
    playing.until(lambda: playing.anonymous() >= 4 * MIB)  # it has begun, and listens
    began = time.monotonic()
    playing.process.terminate()
    assert playing.process.wait(20) == 42
    assert time.monotonic() - began >= 0.5


def test_it_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = player(tmp_path)
    before = made.stat().st_mtime_ns
    monkeypatch.setattr(players, "_compilers", list)
    assert player(tmp_path).stat().st_mtime_ns == before
    with pytest.raises(NoPlayer, match="apt-get install gcc libc6-dev, or pip install ziglang"):
        player(tmp_path / "elsewhere")
