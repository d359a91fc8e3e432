"""A person's terminal: commands as they are typed, and what they print.

Every terminal has a home of its own, so that no test sees the configuration or the discovery cache of another.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.e2e.helpers.transcript import agrees, difference

EXAMPLES = Path(__file__).parents[3] / "examples"
#: How long a command may take, and how long a cluster may take to get somewhere.
COMMAND_SECONDS = 60.0
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Terminal:
    """A shell with the real kubectl of one version, standing in the folder of the examples."""

    home: Path
    kubectl: Path
    folder: Path = EXAMPLES
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.home / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        (programs / "kubectl").symlink_to(self.kubectl)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        return kept | {"HOME": str(self.home), "PATH": path} | self.variables

    def run(self, command: str, stdin: str = "") -> Answer:
        """Type a command and wait for its end."""
        done = subprocess.run(
            command,
            shell=True,
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=COMMAND_SECONDS,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def output(self, command: str, stdin: str = "") -> str:
        """What a command prints that must succeed."""
        answer = self.run(command, stdin)
        assert answer.code == 0, f"$ {command}\n{answer.out}{answer.err}"
        return answer.out.strip()

    def prints(self, command: str, shown: str, stdin: str = "") -> None:
        """The command succeeds, complains about nothing, and prints what the transcript shows."""
        answer = self.run(_mixed(command), stdin)
        assert answer.code == 0, f"$ {command}\n{answer.out}"
        assert agrees(shown, answer.out), f"$ {command}\n{difference(shown, answer.out)}"

    def refuses(self, command: str, shown: str, stdin: str = "") -> None:
        """The command fails, and its error is the one shown."""
        answer = self.run(command, stdin)
        assert answer.code != 0, f"$ {command}\nshould have failed, printed:\n{answer.out}{answer.err}"
        assert not answer.out, f"$ {command}\n{answer.out}"
        assert agrees(shown, answer.err), f"$ {command}\n{difference(shown, answer.err)}"

    def comes_to(self, command: str, shown: str, seconds: float = PATIENCE_SECONDS) -> None:
        """The command prints what the transcript shows, now or within the time."""
        deadline = time.monotonic() + seconds
        while True:
            printed = self.run(_mixed(command)).out
            if agrees(shown, printed):
                return
            assert time.monotonic() < deadline, f"$ {command}\nafter {seconds:g} s\n{difference(shown, printed)}"
            time.sleep(POLL_SECONDS)


def terminal_in(namespace: str, kubeconfig: Path, home: Path, kubectl: Path) -> Terminal:
    """A terminal whose kubectl works in that namespace of a cluster, which it creates."""
    terminal = Terminal(home, kubectl)
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    target = home / ".kube" / "config"
    target.parent.mkdir()
    target.write_text(yaml.safe_dump(config))
    terminal.output(f"kubectl create namespace {namespace}")
    return terminal


def _mixed(command: str) -> str:
    """The command with its complaints among its output, in the order in which a person sees them."""
    return f"exec 2>&1\n{command}"
