"""Images that Kubernetes' documents name and nobody publishes any more: tiny programs of ours, compiled here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from fairlead.agent.images.errors import CannotBuild

#: The names of the programs, each the source of one, by image.
EXAMPLES: Final[Mapping[str, str]] = {
    "saadali/simmemleak": "simmemleak",
    "gcr.io/google_containers/serve_hostname": "serve_hostname",
}
_COMPILE_SECONDS: Final = 60.0


def build(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Each image: its name, its program, and a root file system with it, made below `folder`. Raises CannotBuild."""
    for image, program in EXAMPLES.items():
        rootfs = folder / program
        rootfs.mkdir()
        _compile(program, rootfs / program)
        for path in (rootfs / program, rootfs):
            os.utime(path, (0, 0))  # the same program is the same image, whenever it was made
        yield image, f"/{program}", rootfs


def _compile(program: str, target: Path) -> None:
    compiler = os.environ.get("CC", "cc")
    with as_file(files("fairlead.agent.images") / "programs" / f"{program}.c") as source:
        command = [compiler, "-static", "-Os", "-s", "-o", str(target), str(source)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS)
        except FileNotFoundError:
            raise CannotBuild(f"there is no C compiler {compiler}: install one (apt install gcc libc6-dev)") from None
        except subprocess.TimeoutExpired:
            raise CannotBuild(f"{compiler} did not compile {program} within {_COMPILE_SECONDS:g} s") from None
    if ended.returncode:
        raise CannotBuild(f"{compiler} cannot compile {program} (apt install gcc libc6-dev): {ended.stderr.strip()}")
