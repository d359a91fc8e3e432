"""The README's commands for several teams, typed in two terminals as it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.helpers.terminal import EXAMPLES
from tests.e2e.test_tutorial import reader

README = EXAMPLES.parent / "README.md"


def test_one_cluster_for_several_teams(tmp_path: Path, kubectl_path: Path) -> None:
    section = README.read_text().partition("## One cluster, several teams\n")[2].partition("\n## ")[0]
    first_block, second_block = (block.splitlines()[1:] for block in re.findall(r"```[^`]*", section)[::2])
    with reader(tmp_path / "reader", kubectl_path) as (second, first):
        (start,) = first_block
        assert "Ready in" in first.start(start)
        done = second.run("exec 2>&1; set -e; " + "; ".join(second_block))
        assert done.code == 0, done
        assert "consumer.kube-arbitrator.incubator.k8s.io/defaults created" in done.out
        assert done.out.splitlines()[-1].split()[:2] == ["spark", "2"]
