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


def test_whoever_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    """Somebody removed the directory under a running server, and starts another there."""
    data_dir = tmp_path / "data"
    with directory.held(data_dir):
        directory.discard(data_dir)
        with pytest.raises(directory.DataDirInUse, match="was removed under another"), directory.held(data_dir):
            pass
        assert not data_dir.exists()


def test_a_lock_that_was_removed_with_its_directory_holds_nobody(tmp_path: Path) -> None:
    """`down --delete` removes what it holds: whoever waited for that lock takes one that is there."""
    path = directory.lock_in(tmp_path)
    deleting = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(deleting, fcntl.LOCK_EX)

    def finish() -> None:
        path.unlink()
        os.close(deleting)

    threading.Timer(0.05, finish).start()
    with directory.held(tmp_path):
        assert LocalCluster(tmp_path).pid() == os.getpid()


def test_a_cluster_that_somebody_has_started_meanwhile_is_not_removed(tmp_path: Path) -> None:
    with directory.held(tmp_path):
        with pytest.raises(directory.DataDirInUse):
            LocalCluster(tmp_path).delete()
        assert LocalCluster(tmp_path).pid() == os.getpid()
    LocalCluster(tmp_path).delete()
    assert not tmp_path.exists()


def test_who_had_the_same_process_id_before_does_not_count_as_ready(tmp_path: Path) -> None:
    """In a container every start has the same one."""
    cluster = LocalCluster(tmp_path)
    with directory.held(tmp_path):
        cluster.keep_record("https://127.0.0.1:1", tmp_path / "kubeconfig")
        assert cluster.ready() is not None
    with directory.held(tmp_path):
        assert cluster.ready() is None
        record = cluster.record()
        assert record is not None
        assert record.address == "https://127.0.0.1:1"  # for whoever deletes it
