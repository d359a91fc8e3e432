"""`fairlead up --dashboard` and `fairlead report serve`, as people start them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from fairlead.cli.main import main
from fairlead.study.records import save
from tests.dashboard.runs import kept_run
from tests.dashboard.shown import Picture, events, visitor
from tests.processes import fairlead_up, free_port

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}")


def link_in(text: str) -> str:
    found = _LINK.search(text)
    assert found is not None, text
    return found[0]


async def names_of_rows(link: str, wanted: str) -> set[str]:
    async with visitor(link) as session, events(session) as stream:
        return set(await Picture(stream).until(lambda rows: wanted in rows))


def test_up_prints_a_link_that_leads_to_the_cluster(tmp_path: Path) -> None:
    with fairlead_up(tmp_path / "data", "--nodes", "2", "--dashboard", "0", ends_with=0) as up:
        assert "only this machine, only with this link" in up.greeting
        assert {"node-1", "node-2"} <= asyncio.run(names_of_rows(link_in(up.greeting), "node-2"))


def test_there_is_no_dashboard_unless_one_is_wanted(tmp_path: Path) -> None:
    with fairlead_up(tmp_path / "data", ends_with=0) as up:
        assert _LINK.search(up.greeting) is None


def test_two_listeners_on_one_port_are_refused(tmp_path: Path) -> None:
    port = str(free_port())
    options = ["up", "--data-dir", str(tmp_path / "data"), "--port", port, "--dashboard", port]
    done = CliRunner().invoke(main, options)
    assert (done.exit_code, done.output) == (
        2,
        f"Error: --port and --dashboard are both {port}: give one of them another number\n",
    )


def test_a_kept_run_is_served_until_it_is_told_to_stop(tmp_path: Path) -> None:
    path = save(kept_run(), tmp_path / "run.json.gz")
    command = [sys.executable, "-m", "fairlead", "report", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = link_in(process.stdout.readline())
        assert "shop/late" in asyncio.run(names_of_rows(link, "shop/late"))
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_a_run_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", "serve", "run-none"], env={"FAIRLEAD_RUNS": str(tmp_path)})
    assert done.exit_code == 2
    assert done.output.startswith("Error: there is no run 'run-none' in ")
