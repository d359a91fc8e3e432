"""The tutorial does what it shows: every block of its pages is typed in order, in a home of its own.

A block ```console holds commands (`$ …`) and below each what it prints, with `…` for what differs between machines.
Above a block, `<!-- lines in any order -->` says just that. `$ fairlead up` runs on in its own terminal until a block
says `^C`. The pages' port is 6443; here it is a free one.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import pytest

from tests.e2e.helpers.terminal import EXAMPLES, Terminal
from tests.e2e.helpers.transcript import agrees, difference

DOCS = EXAMPLES.parent / "docs"
START, STOP = "fairlead up", "^C"
STARTED = "Ready in"
START_SECONDS = 30.0
_BLOCK = re.compile(r"^(<!-- lines in any order -->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"127\.0\.0\.1:\d+")


@dataclass(frozen=True, slots=True)
class Typed:
    """A command of the tutorial (or `^C`), and what is shown below it."""

    command: str
    shown: str
    in_any_order: bool = False

    def agrees(self, printed: str) -> bool:
        if self.in_any_order:
            return agrees(_sorted(self.shown), _sorted(printed))
        return agrees(self.shown, printed)


def _sorted(text: str) -> str:
    return "\n".join(sorted(" ".join(line.split()) for line in text.splitlines()))


def typed(text: str) -> Iterator[Typed]:
    """All commands of a document, in order."""
    for mark, block in _BLOCK.findall(text):
        for part in re.split(r"^(?=\$ |\^C)", block, flags=re.MULTILINE):
            command, _, shown = part.partition("\n")
            if command:
                yield Typed(command.removeprefix("$ "), shown, bool(mark))


class FirstTerminal:
    """The terminal in which `fairlead up` runs."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._running: subprocess.Popen[str] | None = None

    def start(self, command: str) -> str:
        """Type the command; what it prints until the cluster is ready."""
        assert self._running is None, "the tutorial starts a cluster while one runs"
        process = subprocess.Popen(
            f"exec {command} --port 0",
            shell=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._terminal.folder,
            env=self._terminal.environment,
        )
        self._running = process
        assert process.stdout is not None
        lines = []
        watchdog = Timer(START_SECONDS, process.kill)
        watchdog.start()
        for line in process.stdout:
            lines.append(_PORT.sub("127.0.0.1:6443", line))
            if line.startswith(STARTED):
                break
        watchdog.cancel()
        return "".join(lines)

    def stop(self) -> str:
        """Press ctrl-C; what is printed after it."""
        assert self._running is not None, "the tutorial stops a cluster that does not run"
        self._running.send_signal(signal.SIGINT)
        printed, _ = self._running.communicate(timeout=START_SECONDS)
        self._running = None
        return printed

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()


@contextmanager
def reader(folder: Path, kubectl_path: Path) -> Iterator[tuple[Terminal, FirstTerminal]]:
    """Somebody with a checkout and nothing else; what they `export` stays for the commands that follow."""
    folder.mkdir()
    shutil.copytree(EXAMPLES, folder / "examples")
    home = folder / "home"
    terminal = Terminal(home, kubectl_path, folder=folder, variables={"BASH_ENV": str(home / "exports")})
    (home / "exports").touch()
    (home / "bin" / "fairlead").write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead "$@"\n')
    (home / "bin" / "fairlead").chmod(0o755)
    first = FirstTerminal(terminal)
    try:
        yield terminal, first
    finally:
        first.close()


def printed_by(step: Typed, second: Terminal, first: FirstTerminal) -> str:
    if step.command.startswith(START):
        return first.start(step.command)
    if step.command == STOP:
        return first.stop()
    if step.command.startswith("export "):
        exports = Path(second.variables["BASH_ENV"])
        exports.write_text(exports.read_text() + step.command + "\n")
        return ""
    return second.run(f"exec 2>&1; bash -c {shlex.quote(step.command)}").out


@pytest.mark.parametrize("page", ["tutorial.md", pytest.param("node-pressure.md", marks=pytest.mark.slow)])
def test_every_step_of_a_page_prints_what_it_shows(page: str, tmp_path: Path, kubectl_path: Path) -> None:
    """Style 14: documents are tested."""
    steps = list(typed((DOCS / page).read_text()))
    assert len(steps) > 20
    with reader(tmp_path / "reader", kubectl_path) as (second, first):
        for step in steps:
            printed = printed_by(step, second, first)
            assert step.agrees(printed), f"$ {step.command}\n{difference(step.shown, printed)}"


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a  b\n", "a b", True),
        ("a …\n", "a 12s", True),
        ("a\n…\nz\n", "a\nb\nc\nz", True),
        ("a\n", "a\nb", False),
        ("", "a", False),
        ("", "", True),
        ("1.5\n", "1x5", False),
    ],
)
def test_transcripts_are_compared_but_for_what_is_elided(shown: str, printed: str, equal: bool) -> None:
    assert agrees(shown, printed) is equal
