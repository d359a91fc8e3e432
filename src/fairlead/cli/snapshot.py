"""`fairlead snapshot`: a cluster of this machine in one file, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from fairlead.cli.clusters import LocalCluster, chosen, start_command, which_cluster
from fairlead.cli.failures import Failure, explained, parsing
from fairlead.store import snapshot as snapshots
from fairlead.store.database import Contents, Damaged
from fairlead.store.directory import database_in
from fairlead.store.snapshot import NothingThere
from fairlead.wording import counted

_FILE = click.Path(dir_okay=False, path_type=Path)
_PRESENT = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(short_help="Save a cluster of this machine to one file, and bring it back.")
def snapshot() -> None:
    """Save all that a cluster of this machine has stored to one file, and bring it back.

    \b
    Example:
      fairlead snapshot save before.db            # while it runs
      fairlead down --delete
      fairlead snapshot restore before.db && fairlead up
    """


@snapshot.command(short_help="Save a cluster, running or not.")
@click.argument("file", type=_FILE)
@which_cluster
def save(file: Path, data_dir: Path | None, name: str | None) -> None:
    """Save the cluster in DATA-DIR, or the one of that name, to FILE, which must not exist yet.

    The cluster may be running and being written to: FILE is its state at one moment. It is read back and checked
    before it gets its name. Everything is in it, Secrets too: only you can read it. Credentials are not.
    """
    cluster = _cluster(data_dir, name)
    with _explained(cluster):
        contents = snapshots.save(database_in(cluster.data_dir), file, is_served=cluster.pid() is not None)
    click.echo(f"Saved {_summary(contents)} to {file}.")


@snapshot.command(short_help="Begin a cluster with a snapshot.")
@click.argument("file", type=_PRESENT)
@which_cluster
def restore(file: Path, data_dir: Path | None, name: str | None) -> None:
    """Begin the cluster in DATA-DIR, or the one of that name, with what is in FILE. It must not have any data yet.

    Nothing is overwritten: move the old data directory away first, or remove it (fairlead down --delete). Clients that
    watched the old cluster list again; resource versions go on far above those that they may know. Credentials are not
    in FILE: kubeconfigs and tokens of the old cluster do not let anybody into the new one.
    """
    cluster = _cluster(data_dir, name)
    with _explained(cluster):
        contents = snapshots.restore(file, cluster.data_dir)
    click.echo(f"Restored {_summary(contents)} into {cluster.data_dir}. Start it with: {start_command(cluster)}")


@snapshot.command(short_help="Check a snapshot, or what a cluster has stored.")
@click.argument("file", type=_PRESENT, required=False)
@which_cluster
def check(file: Path | None, data_dir: Path | None, name: str | None) -> None:
    """Read all of FILE, or what the cluster has stored, and compare every record with its checksum.

    Exits with 0 if it is whole, with 1 if it is not.
    """
    cluster = _cluster(data_dir, name)
    path = file or database_in(cluster.data_dir)
    with _explained(cluster):
        contents = snapshots.check(path, is_served=file is None and cluster.pid() is not None)
    click.echo(f"{path} is whole: {_summary(contents)}.")


def _cluster(data_dir: Path | None, name: str | None) -> LocalCluster:
    with parsing():
        return chosen(data_dir, name)


def _summary(contents: Contents) -> str:
    return f"{counted(len(contents.objects), 'object')} at revision {contents.revision}"


@contextmanager
def _explained(cluster: LocalCluster) -> Iterator[None]:
    with explained():
        try:
            yield
        except (Damaged, NothingThere) as error:
            raise Failure(f"{error}.") from None
        except FileExistsError as error:
            there = error.filename or error
            raise Failure(f"{there} exists already and is not overwritten. Move it away, or choose another.") from None
