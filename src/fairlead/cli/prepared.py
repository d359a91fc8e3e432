"""The process of a node agent that is begun before anybody knows what it will be told.

Loading an agent takes as long as starting an API server, and only then are there certificates and an address for it. So
both are begun at once, and the words of the command come on its standard input as one line of JSON. If none come, it
ends: whoever began it is gone.

Nor does it outlive who began it, however that ended: the next `fairlead up` takes over what runs on this node, and
could not beside an agent that has the node's folder and no cluster.
"""

from __future__ import annotations

import json
import signal
import sys

from fairlead.agent import linux


def main() -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    import fairlead.cli.node_run  # noqa: F401  (this is what takes time)
    from fairlead.__main__ import command

    line = sys.stdin.readline()
    if line:
        sys.argv = ["fairlead", *json.loads(line)]
        command()


if __name__ == "__main__":
    main()
