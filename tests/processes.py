"""Real processes for tests: `fairlead up`, and single components beside it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: What a component says first.
_BEGINNINGS = {"arbitrator": "Arbitrating at", "scheduler": "Scheduling for"}


@dataclass(frozen=True, slots=True)
class Up:
    """A running `fairlead up`."""

    process: subprocess.Popen[str]
    data_dir: Path
    greeting: str

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"


@contextmanager
def fairlead_up(
    data_dir: Path,
    *options: str,
    program: Sequence[str] = ("-m", "fairlead"),
    ends_with: int | None = None,
    within: Sequence[str] = (),
) -> Iterator[Up]:
    """Run `fairlead up` on a free port while the block runs; it must become ready, and stop when told to.

    `program` is what Python runs; the exit code is looked at only if one is named, for tests may have killed it.
    `within` is what starts it.
    """
    command = [*within, sys.executable, *program, "up", "--data-dir", str(data_dir), "--port", "0", *options]
    with (data_dir.parent / f"{data_dir.name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield Up(process, data_dir, _greeting(process, Path(log.name)))
    finally:
        code = _stopped(process)
    assert ends_with in (None, code)


@contextmanager
def component(up: Up, name: str, *options: str, ends_with: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Run `fairlead NAME` against that cluster while the block runs; it must begin, and end with that exit code."""
    command = [sys.executable, "-m", "fairlead", name, "--kubeconfig", str(up.kubeconfig), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith(_BEGINNINGS[name])
        yield process
    finally:
        assert _stopped(process) == ends_with


def _stopped(process: subprocess.Popen[str]) -> int:
    """Tell the process to stop, which it must; its exit code."""
    process.terminate()
    try:
        return process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def _greeting(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ready"):
            return "".join(lines)
    raise AssertionError(f"fairlead up did not become ready:\n{''.join(lines)}{log.read_text()}")


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
