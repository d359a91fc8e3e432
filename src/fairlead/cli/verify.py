"""`fairlead verify`: a workload in virtual time and on this machine, side by side."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
import msgspec

from fairlead.agent.cgroups.hierarchies import NoCgroups
from fairlead.agent.claims import InUse
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.api.errors import ApiError
from fairlead.cli.failures import Failure, WrongUsage, explained, parsing
from fairlead.cli.machine_notes import said_of_machine
from fairlead.cli.node_root import SHOWN_ROOT, default_root
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.load import configure
from fairlead.runtime import log_lines
from fairlead.verify.nested import TooSmall
from fairlead.verify.packaged import names, packaged
from fairlead.verify.player import NoPlayer
from fairlead.verify.prediction import Unplayable
from fairlead.verify.reality import NeverReady
from fairlead.verify.run import Verified
from fairlead.verify.run import verify as verify_workload
from fairlead.verify.tables import agreement_table, described, table, verdict
from fairlead.verify.workload import Workload, kubelet_document, read, resized

DEFAULT_ROOT: Final = Path("/var/lib/fairlead-verify")
_DIFFERS: Final = 1
_INTERRUPTED: Final = 130


@click.command(short_help="Hold predictions against this machine.")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--memory", metavar="QUANTITY", help="What the workload gets, instead of what it says itself.")
@click.option("--cpus", type=click.IntRange(1), help="The same of CPUs.")
@click.option("--disk", metavar="QUANTITY", help="The same of disk.")
@click.option("--seconds", metavar="DURATION", help="For how long it is looked at, instead of what it says itself.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.option("--list", "is_list", is_flag=True, help="Name the workloads of the package, and run none.")
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_ROOT,
    show_default=True,
    help="A folder of its own to work in; empty again at the end.",
)
@click.option(
    "--images-root",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_root,
    show_default=SHOWN_ROOT,
    help="Where the images of containers lie that run a command (fairlead images load).",
)
def verify(
    workloads: tuple[str, ...],
    memory: str | None,
    cpus: int | None,
    disk: str | None,
    seconds: str | None,
    output: str,
    is_list: bool,
    root: Path,
    images_root: Path,
) -> None:
    """Run workloads once in virtual time and once as real containers, and say who was OOM-killed, throttled, evicted
    and restarted, when, and how far that is apart. It takes root, conmon and crun, and gives the workload a cgroup with
    so much memory and a disk in a file, so that the rest of the machine is safe.

    A WORKLOAD is a file, or the name of one that comes with Fairlead; without any, all of those are run. The exit code
    is 1 where another victim or order came than predicted, or a time is off by more than 2 s and 10 %.

    \b
    Example:
      fairlead verify node-limit
      fairlead verify -o json ./mine.yaml
    """
    log_lines.configure(logging.ERROR)
    if is_list:
        click.echo("\n".join(names()))
        return
    given = {"memory": memory, "cpus": cpus, "disk": disk, "seconds": seconds}
    size = {name: value for name, value in given.items() if value is not None}
    with parsing():
        chosen = [resized(_chosen(text), size) for text in workloads or names()]
        if os.geteuid() != 0:
            raise WrongUsage("real containers take root: start it with sudo")
    found = []
    with _stoppable():
        for number, workload in enumerate(chosen):
            found.append(_verified(workload, root.absolute(), images_root.absolute()))
            if output == "text":
                machine = described(workload.size) + said_of_machine(kubelet_document(workload))
                click.echo(("\n" if number else "") + f"{workload.name}: {machine}")
                click.echo(table(found[-1]))
                sys.stdout.flush()
    if output == "json":
        click.echo(_document(found))
    elif output == "markdown":
        click.echo(agreement_table(found))
    elif len(found) > 1:
        click.echo("\n" + "\n".join(f"{each.workload}: {verdict(each.comparison)}" for each in found))
    if not all(each.comparison.agrees for each in found):
        sys.exit(_DIFFERS)


def _chosen(text: str) -> Workload:
    """A file of that name counts before a workload of the package."""
    path = Path(text)
    if path.exists() or text not in names():
        if not path.is_file():
            raise WrongUsage(f"there is no file {text}, and no workload of that name: {', '.join(names())}")
        return read(path)
    return packaged(text)


def _verified(workload: Workload, root: Path, images_root: Path) -> Verified:
    with explained():
        try:
            for warning in configure(kubelet_document(workload)).warnings:
                click.echo(f"{workload.name}: {warning}", err=True)
            return verify_workload(workload, root, images_root)
        except (ApiError, Unplayable) as refusal:
            raise WrongUsage(f"{workload.name}: {refusal}") from None
        except StartupError as refusal:
            raise WrongUsage(f"{workload.name}: its KubeletConfiguration: {refusal}") from None
        except (InUse, NeverReady, NoCgroups, NoPlayer, RuntimeFailure, TooSmall) as problem:
            raise Failure(str(problem)) from None


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM is as good as Ctrl-C: either leaves nothing behind."""

    def asked(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not end the cleaning up
        signal.raise_signal(signal.SIGINT)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, asked)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped; nothing is left on the machine.", err=True)
        sys.exit(_INTERRUPTED)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _document(found: Sequence[Verified]) -> str:
    document: Any = {"agrees": all(each.comparison.agrees for each in found), "workloads": found}
    return msgspec.json.format(msgspec.json.encode(document)).decode()
