"""`python -m fairlead`, which is the `fairlead` command."""

import os
import signal
import sys


def command() -> None:
    """Run the command. Ctrl-C ends it at once, unless a command with something to finish handles it: no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_streams()
    from fairlead.cli.main import main  # takes its time, in which ctrl-C may come
    from fairlead.runtime.memory import leave_to_system

    try:
        main()
    finally:
        leave_to_system()


def _open_streams() -> None:
    """What is closed of standard input, output and error is /dev/null, as for a program in Go: files and sockets would
    get their numbers, which libuv refuses to close."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed; what is opened gets its number, the lowest that is free
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  (before pathlib is loaded)
            os.set_inheritable(getattr(sys, name).fileno(), True)


if __name__ == "__main__":
    command()
