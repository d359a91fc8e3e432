"""Tries a mount that not every machine allows, a program: it ends well if the kernel takes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fairlead.agent import linux
from fairlead.agent.runtimes.process.root_mounts import overlay_options


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    try:
        if what == "proc":
            linux.unshare("pid")
            if child := os.fork():  # who is in the new namespace
                sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        linux.unshare("mnt")
        linux.mount("", Path("/"), flags=linux.MS_SLAVE | linux.MS_REC)  # nobody else sees what is mounted here
        if what == "proc":
            linux.mount("proc", folder / "merged", "proc")
        else:
            os.chdir(folder)
            linux.mount("overlay", folder / "merged", "overlay", data=overlay_options(["lower"], "upper", "work"))
            (folder / "merged" / "file").touch()
    except OSError as problem:
        sys.exit(str(problem))
