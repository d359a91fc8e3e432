"""How long the openb trace takes in virtual time, as the whole command: `python -m benchmarks.trace [RUNS]`."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.arguments import parser
from benchmarks.openb import TRACE

NODES = ("--nodes-from", str(TRACE / "openb_node_list_all_node.csv"))
PODS = ("--pods-from", str(TRACE / "openb_pod_list_default.csv"))


def simulate(*options: str) -> tuple[str, str]:
    """One run in a process of its own: what it cost, and the first line that it said."""
    command = [sys.executable, "-c", "from fairlead.cli.main import main; main()", "simulate", *options]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - began
    if process.returncode:
        raise SystemExit("the simulation failed")
    return f"{took:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MB", said[0]


def main(runs: int) -> None:
    for _ in range(runs):
        for name, options in (("start and 1,523 nodes", NODES), ("the whole trace", (*NODES, *PODS))):
            cost, said = simulate(*options)
            print(f"{name:<24} {cost:>36}   {said.rpartition('(')[2].rstrip(')')}")


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("runs", type=int, nargs="?", default=1, help="how many (default: %(default)s)")
    given = options.parse_args()
    if not TRACE.exists():
        sys.exit(f"skipped: the trace is not here ({TRACE})")
    main(given.runs)
