"""The lock of a data directory: for one process alone, and not lost to somebody who only looks."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from fairlead.cli.clusters import LocalCluster
from fairlead.cli.failures import Failure
from fairlead.store import directory


def test_one_process_alone_has_the_directory(tmp_path: Path) -> None:
    with directory.held(tmp_path):
        with pytest.raises(directory.DataDirInUse), directory.held(tmp_path):
            pass
        assert LocalCluster(tmp_path).pid() == os.getpid()
    assert LocalCluster(tmp_path).pid() is None


def test_whoever_only_looks_keeps_nobody_out(tmp_path: Path) -> None:
    """`fairlead up --detach` and `fairlead status` look twenty times a second whether the lock is held."""
    looking = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looking]).start()
    with directory.held(tmp_path):
        pass


@pytest.mark.parametrize("text", [b"-1", b"0", b"1", b"me"])
def test_nobody_else_is_sent_a_signal_whatever_a_lock_says(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "lock").write_bytes(text)
    with (tmp_path / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Failure, match="is no process id"):
            LocalCluster(tmp_path).stop(1)
