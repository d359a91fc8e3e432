"""`python -m fairlead`, which is the `fairlead` command."""

import signal


def command() -> None:
    """Run the command. Ctrl-C ends it at once, unless a command with something to finish handles it: no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fairlead.cli.main import main  # takes its time, in which ctrl-C may come
    from fairlead.runtime.memory import leave_to_system

    try:
        main()
    finally:
        leave_to_system()


if __name__ == "__main__":
    command()
