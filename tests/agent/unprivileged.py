"""Programs of a user without root, where the tests are root's, too: a made-up user, whom the machine does not know.

What Python and Fairlead lie in may be closed to others (a home of root's). Then the user gets a look of the machine in
which it is not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

import fairlead

#: Each worker of the tests has its own, so that what is left of it can be told.
UID = 61_000 + os.getpid() % 4000 if os.geteuid() == 0 else os.geteuid()
_PROGRAMS = ("busybox", "setpriv", "unshare")
_EXECUTE_FOR_OTHERS = 0o001
#: Arguments: the user, how many closed folders, each with what is to be seen in it, and the program.
_LOOK = """
uid=$1; count=$2; shift 2
for number in $(seq "$count"); do
  scratch=$(mktemp -d) && mount --bind "$2" "$scratch" && mount -t tmpfs -o mode=755 none "$1" || exit 1
  mkdir -p "$2" && mount --bind "$scratch" "$2" && umount "$scratch" && rmdir "$scratch" || exit 1
  shift 2
done
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
"""


@lru_cache
def missing() -> str:
    """Why nobody without root can run pods here; empty if one can."""
    if absent := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"a user's pods need {', '.join(absent)} (apt-get install busybox-static util-linux)"
    asked = subprocess.run(as_user("unshare", "--user", "--mount", "true"), capture_output=True, text=True)
    if asked.returncode != 0:
        return f"this machine gives its users no namespaces: {asked.stderr.strip()}"
    asked = subprocess.run(as_user(sys.executable, "-c", "import fairlead"), capture_output=True, text=True)
    return f"a user without root cannot run this Python: {asked.stderr.strip()[-200:]}" if asked.returncode else ""


def as_user(*command: str) -> list[str]:
    """What runs it as that user, in the same process."""
    if os.geteuid() != 0:
        return list(command)
    closed = list(_closed())
    pairs = [str(path) for pair in closed for path in pair]
    look = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _LOOK, "sh"]
    return [*look, str(UID), str(len(closed)), *pairs, *command]


def _closed() -> Iterator[tuple[Path, Path]]:
    """Folders that others may not enter, with what of Python and Fairlead lies in them."""
    needed = {Path(each).resolve() for each in (sys.base_prefix, sys.prefix, Path(fairlead.__file__).parents[2])}
    for path in sorted(needed):
        above = [each for each in (path, *path.parents) if not each.stat().st_mode & _EXECUTE_FOR_OTHERS]
        if above:
            yield above[-1], path


@contextmanager
def home() -> Iterator[Path]:
    """A folder of that user, of whom nothing runs when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-user-"))
    os.chown(folder, UID, UID if os.geteuid() == 0 else -1)
    try:
        yield folder
    finally:
        left = processes(folder)
        for pid in left:
            os.kill(pid, 9)
        shutil.rmtree(folder, ignore_errors=True)
        assert not left, f"left running: {left}"


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": "", "PYTHONDONTWRITEBYTECODE": "1"}


def processes(folder: Path) -> dict[int, str]:
    """Those that have to do with that folder; the dead, whom nobody has buried yet, are none."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                is_there = entry.stat().st_uid == UID != 0 if os.geteuid() == 0 else str(folder) in words
            except OSError:
                continue
            if is_there and words:
                found[int(entry.name)] = words
    return found


def run_as_user(folder: Path, *command: str) -> str:
    """What it said, once it has ended well."""
    env = environment(folder)
    done = subprocess.run(as_user(*command), cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fairlead_command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "fairlead", *words]


user_pods = pytest.mark.skipif(bool(missing()), reason=missing())
