"""The clusters of this machine: where each keeps its data, whether it runs, and how to reach it.

`fairlead up` holds a lock file with its process id in its data directory, and writes a record beside it once it is
ready. So the other commands need no registry and no daemon: the lock says whether a cluster runs, however the last one
ended, and the record says how to reach it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from fairlead.api.names import dns1123_label
from fairlead.cli.failures import Failure, WrongUsage
from fairlead.client import kubeconfig as kubeconfigs
from fairlead.runtime.http.listener import is_free
from fairlead.runtime.user_folders import NoHome, data_folder
from fairlead.server.auth.certificates import write_private
from fairlead.store import directory

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_DATA_DIR: Final = Path(".fairlead")
#: The context of a cluster without a name, and the prefix of a named cluster's.
CONTEXT: Final = "fairlead"
DEFAULT_PORT: Final = 6443
POLL_SECONDS: Final = 0.05
#: How long a process may hold the lock before it has written its id.
_START_SECONDS: Final = 2.0


class ClusterRecord(msgspec.Struct, frozen=True):
    """The record that a cluster writes into its data directory when it is ready."""

    pid: int
    address: str
    kubeconfig: str  # the file of --kubeconfig, which other clusters may share
    context: str


class LocalCluster(msgspec.Struct, frozen=True):
    """A cluster of this machine, running or not."""

    data_dir: Path
    name: str = ""  # empty: identified by its directory

    @property
    def context(self) -> str:
        return f"{CONTEXT}-{self.name}" if self.name else CONTEXT

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.name or str(self.data_dir)

    @property
    def option(self) -> str:
        """The option that selects it, for commands in messages; empty for the cluster of this directory."""
        if self.name:
            return f"--name {self.name}"
        return f"--data-dir {quote(str(self.data_dir))}" if self.data_dir != DEFAULT_DATA_DIR else ""

    @property
    def exists(self) -> bool:
        return self.lock.exists()

    @property
    def lock(self) -> Path:
        return directory.lock_in(self.data_dir)

    @property
    def log(self) -> Path:
        """The log of a cluster in the background."""
        return directory.log_in(self.data_dir)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of this cluster alone."""
        return directory.kubeconfig_in(self.data_dir)

    @property
    def _record(self) -> Path:
        return directory.record_in(self.data_dir)

    def pid(self) -> int | None:
        """The process that runs it; None if none does."""
        try:
            lock = os.open(self.lock, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if until(lambda: bool(os.pread(lock, 32, 0)), _START_SECONDS):
                return _number(os.pread(lock, 32, 0))
            raise Failure(f"{self.title} is just starting; try again") from None
        finally:
            os.close(lock)
        return None

    def record(self) -> ClusterRecord | None:
        """The record of the last process that became ready; None if there was none."""
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=ClusterRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def ready(self) -> ClusterRecord | None:
        """Its record, if it runs and is ready."""
        pid, record = self.pid(), self.record()
        return record if record is not None and record.pid == pid else None

    def usual_port(self) -> int:
        """The port for its API unless told otherwise; 0: any that is free.

        A named cluster is one of several: it keeps the port it had, for the sake of kubeconfigs, and gives way if
        another has that.
        """
        if not self.name:
            return DEFAULT_PORT
        record = self.record()
        port = (record and urlsplit(record.address).port) or DEFAULT_PORT
        return port if is_free(port) else 0

    def keep_record(self, address: str, kubeconfig: Path) -> None:
        """Write the record: this process is ready."""
        record = ClusterRecord(os.getpid(), address, str(kubeconfig.absolute()), self.context)
        write_private(self._record, msgspec.json.encode(record))

    def stop(self, seconds: float) -> bool:
        """Stop it and wait until it has ended; False if it did not run. Raises Failure if it does not end in time."""
        pid = self.pid()
        if pid is None:
            return False
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, signal.SIGTERM)
        if not until(lambda: self.pid() != pid, seconds):
            raise Failure(f"{self.title} (process {pid}) did not end within {seconds:g} s. End it with: kill -9 {pid}")
        return True

    def delete(self) -> None:
        """Remove the files of a cluster that does not run, and its context in the kubeconfig that it wrote.

        Holds the lock meanwhile, so that it cannot start. Raises DataDirInUse if it runs.
        """
        with directory.held(self.data_dir):
            record = self.record()
            if record is not None:
                _forget(Path(record.kubeconfig), record)
            self.log.unlink(missing_ok=True)
            directory.discard(self.data_dir)


def _number(text: bytes) -> int:
    if not text.isdigit() or int(text) < 2:  # signals to 0, 1 and negative numbers reach other processes
        raise Failure(f"the lock is held by something else than fairlead: {text!r} is no process id")
    return int(text)


def _forget(path: Path, record: ClusterRecord) -> None:
    """Remove the cluster from a kubeconfig, unless its context has another server by now."""
    try:
        if kubeconfigs.load(path, record.context).server != record.address:
            return
        rest = kubeconfigs.without(kubeconfigs.read(path), record.context)
    except (OSError, ValueError):
        return  # the file is gone, or is no kubeconfig any more
    write_private(path.resolve(), kubeconfigs.dump(rest).encode())


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds, at most `seconds`; returns whether it does."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def which_cluster(command: Command) -> Command:
    """Adds the options that select a cluster of this machine."""
    for option in (
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where its data is.  [default: .fairlead]",
        ),
        click.option("--name", help="A cluster by its name instead: its data is in ~/.local/share/fairlead/NAME."),
    ):
        command = option(command)
    return command


def chosen(data_dir: Path | None, name: str | None) -> LocalCluster:
    """The cluster that those options select. Raises WrongUsage if they contradict each other, NoHome."""
    if name is None:
        return LocalCluster(data_dir or DEFAULT_DATA_DIR)
    if data_dir is not None:
        raise WrongUsage("--name and --data-dir both say where the data is: give one of them")
    if errors := dns1123_label(name):
        raise WrongUsage(f"--name {name!r}: {errors[0]}")
    return LocalCluster(data_folder() / name, name)


def known() -> list[LocalCluster]:
    """The cluster of this directory and all named ones."""
    here = LocalCluster(DEFAULT_DATA_DIR)
    named: list[LocalCluster] = []
    with suppress(NoHome):
        named = [LocalCluster(folder, folder.name) for folder in sorted(data_folder().glob("*"))]
    return [cluster for cluster in (here, *named) if cluster.exists]


def running(cluster: LocalCluster) -> ClusterRecord:
    """The record of a cluster that is ready; raises Failure otherwise."""
    if (record := cluster.ready()) is None:
        state = "is starting" if cluster.pid() else "is not running"
        raise Failure(f"{cluster.title} {state}. Start it with: {start_command(cluster)}")
    return record


def start_command(cluster: LocalCluster) -> str:
    """The command that starts it."""
    return f"fairlead up {cluster.option}".rstrip()
