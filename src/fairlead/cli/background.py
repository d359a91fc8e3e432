"""`fairlead up --detach`: starts the same command again in a session of its own, and waits until it is ready.

An environment variable tells the child that it is detached. Its output goes to a log in its data directory; the parent
prints what is in the log when the child is ready.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import click

from fairlead.cli.clusters import LocalCluster, until
from fairlead.cli.failures import Failure

_DETACHED: Final = "FAIRLEAD_DETACHED"


def is_detached() -> bool:
    """Whether this process is the detached child."""
    return _DETACHED in os.environ


def detach(cluster: LocalCluster, seconds: float, *, reads_input: bool) -> None:
    """Run this command in the background and wait until its cluster is ready, at most `seconds`; 0 does not wait."""
    stop = f"fairlead down {cluster.option}".rstrip()
    if pid := cluster.pid():
        raise Failure(f"{cluster.title} runs already (process {pid}). Stop it with: {stop}")
    cluster.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with cluster.log.open("ab") as log:  # append: another child that starts here at the same time must not overwrite it
        log.truncate(0)
        child = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *sys.argv[1:]],
            env=os.environ | {_DETACHED: "1"},
            stdin=None if reads_input else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if not seconds:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def is_decided() -> bool:
        record = cluster.ready()
        return child.poll() is not None or (record is not None and record.pid == child.pid)

    try:
        arrived = until(is_decided, seconds)
    except KeyboardInterrupt:
        child.terminate()
        raise SystemExit(128 + signal.SIGINT) from None
    output = cluster.log.read_text(errors="replace").rstrip()
    if child.returncode is not None:
        click.echo(output or f"Error: it ended at once, with exit code {child.returncode}", err=True)
        raise SystemExit(child.returncode or 1)
    if not arrived:
        raise Failure(f"not ready after {seconds:g} s, and still starting. What it says is in {cluster.log}")
    if output:
        click.echo(f"{output}\nIn the background (process {child.pid}). Stop it with: {stop}")
