"""Clusters in the background: started, found, used, stopped and taken away by name, by real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.cli.clusters import LocalCluster, until
from tests.e2e.helpers.terminal import Terminal
from tests.examples import each_time


@pytest.fixture
def shell(tmp_path: Path, kubectl_path: Path) -> Iterator[Terminal]:
    """A terminal in an empty folder, whose named clusters are its own; none of them outlives the test."""
    programs = tmp_path / "home" / "bin"
    programs.mkdir(parents=True)
    (programs / "fairlead").write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead "$@"\n')
    (programs / "fairlead").chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    terminal = Terminal(tmp_path / "home", kubectl_path, folder, {"XDG_DATA_HOME": str(tmp_path / "data")})
    yield terminal
    for cluster in json.loads(terminal.run("fairlead status --all -o json").out):
        if cluster["pid"]:
            os.kill(cluster["pid"], signal.SIGKILL)


def test_a_named_cluster_runs_in_the_background_until_it_is_told_to_stop(shell: Terminal) -> None:
    greeting = shell.output("fairlead up --name dev --detach --port 0 --nodes 2")
    assert "2 simulated nodes" in greeting and "Stop it with: fairlead down --name dev" in greeting
    again = shell.run("fairlead up --name dev --detach --port 0")
    assert (again.code, "dev runs already" in again.err) == (1, True)
    assert shell.output("fairlead kubectl --name dev get nodes -o name") == "node/node-1\nnode/node-2"
    assert "dev is ready" in shell.output("fairlead status --name dev")

    assert "dev stopped. Its data stays in" in shell.output("fairlead down --name dev")
    stopped = shell.run("fairlead status --name dev -o json")
    assert (stopped.code, json.loads(stopped.out)["state"]) == (1, "stopped")
    refused = shell.run("fairlead kubectl --name dev get nodes")
    assert (refused.code, refused.err) == (1, "Error: dev is not running. Start it with: fairlead up --name dev\n")
    assert "was not running" in shell.output("fairlead down --name dev")


@pytest.mark.slow
def test_named_clusters_run_side_by_side_without_being_told_their_ports(shell: Terminal) -> None:
    for name in ("one", "two"):
        shell.output(f"fairlead up --name {name} --detach --nodes 0")
    running = json.loads(shell.output("fairlead status --all -o json"))
    assert {cluster["state"] for cluster in running} == {"ready"}
    assert len({cluster["api"] for cluster in running}) == 2
    for name in ("one", "two"):
        assert "default" in shell.output(f"fairlead kubectl --name {name} get namespaces -o name")


def test_a_named_cluster_keeps_its_port_until_another_has_it(tmp_path: Path) -> None:
    dev = LocalCluster(tmp_path, "dev")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        dev.keep_record(f"https://127.0.0.1:{port}", tmp_path / "kubeconfig")
        assert dev.usual_port() == 0
    assert dev.usual_port() == port


def test_what_the_greeting_tells_to_type_is_typed_in_a_folder_with_a_space(shell: Terminal) -> None:
    greeting = shell.output("fairlead up --detach --port 0 --nodes 1 --data-dir 'my cluster'")
    [tell_kubectl] = re.findall("export KUBECONFIG=.*", greeting)
    [stop] = re.findall("Stop it with: (.*)", greeting)
    assert shell.output(f"{tell_kubectl}; kubectl get nodes -o name") == "node/node-1"
    assert "my cluster stopped." in shell.output(stop)


@pytest.mark.slow
def test_a_deleted_cluster_leaves_nothing_but_what_others_put_beside_it(shell: Terminal) -> None:
    shared = shell.home / "config"
    other = {"name": "other", "context": {"cluster": "other", "user": "other"}}
    shared.write_text(yaml.safe_dump({"contexts": [other], "current-context": "other"}))
    shell.output(f"fairlead up -d --data-dir here --port 0 --nodes 0 --kubeconfig {shared}")
    assert shell.output(f"kubectl --kubeconfig {shared} config current-context") == "fairlead"
    assert "default" in shell.output("fairlead kubectl --data-dir here get namespaces -o name")
    (shell.folder / "here" / "notes.txt").write_text("mine")

    assert "Its data is removed" in shell.output("fairlead down --data-dir here --delete")
    assert [path.name for path in (shell.folder / "here").iterdir()] == ["notes.txt"]
    left = yaml.safe_load(shared.read_text())
    assert (left["contexts"], left["clusters"], left["users"], left["current-context"]) == ([other], [], [], "")


@pytest.mark.slow
def test_a_cluster_that_cannot_start_in_the_background_says_why(shell: Terminal) -> None:
    failed = shell.run("fairlead up --detach --port 0 --components nonsense")
    assert (failed.code, "unknown component nonsense" in failed.err) == (2, True)
    assert "Traceback" not in failed.err
    assert [path.name for path in (shell.folder / ".fairlead").iterdir()] == ["fairlead.log"]
    nowhere = shell.run("fairlead up --port 0 --kubeconfig /nonexistent/dir/kc")
    assert nowhere.code == 2
    assert "/nonexistent/dir/kc cannot be: there is no folder /nonexistent/dir. Make it first" in nowhere.err


@pytest.mark.slow
def test_a_first_start_that_fails_leaves_nothing_and_a_later_one_leaves_all(shell: Terminal) -> None:
    (shell.folder / "bad.yaml").write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "A_B"}}')
    for _ in range(2):
        failed = shell.run("fairlead up --port 0 --import bad.yaml")
        assert (failed.code, "Node A_B cannot be stored" in failed.err) == (2, True)
        assert not (shell.folder / ".fairlead").exists()
    shell.output("fairlead up --detach --port 0 --nodes 1")
    shell.output("fairlead down")
    assert shell.run("fairlead up --port 0 --import bad.yaml").code == 2
    assert "(kept from before)" in shell.output("fairlead up --detach --port 0 --nodes 1")


@pytest.mark.slow
def test_whoever_started_one_elsewhere_can_wait_for_it(shell: Terminal) -> None:
    assert shell.run("fairlead up --detach --wait 0 --port 0 --nodes 0").code == 0
    assert ".fairlead is ready" in shell.output("fairlead status --wait 30")
    assert [one["name"] for one in json.loads(shell.output("fairlead status --all -o json"))] == [""]


@pytest.mark.slow
def test_of_two_that_start_the_same_cluster_one_is_told_that_it_did(shell: Terminal) -> None:
    told = shell.output(
        "for n in 1 2; do (fairlead up --detach --port 0 --nodes 0 >$n 2>&1; echo $? >>$n) & done; wait; tail -qn 1 1 2"
    )
    assert sorted(told.split()) == ["0", "1"]
    [winner, loser] = sorted(("1", "2"), key=lambda name: shell.output(f"tail -n 1 {name}"))
    pid = json.loads(shell.output("fairlead status -o json"))["pid"]
    assert f"In the background (process {pid})." in shell.output(f"cat {winner}")
    refusals = (".fairlead is in use by another fairlead", f".fairlead runs already (process {pid})")
    assert any(refusal in shell.output(f"cat {loser}") for refusal in refusals), (
        "as soon as the first has said that it runs"
    )


#: What shows from outside how far a cluster has come: while it imports, and then what it makes in its data directory.
MOMENTS: dict[str, Callable[[subprocess.Popen[str], Path], bool]] = {
    "importing": lambda process, data: "msgspec" in Path(f"/proc/{process.pid}/maps").read_text(),
    "locked": lambda process, data: (data / "lock").exists(),
    "opened": lambda process, data: (data / "fairlead.db").exists(),
    "listening": lambda process, data: (data / "kubeconfig").exists(),
    "ready": lambda process, data: (data / "cluster.json").exists(),
}


@pytest.mark.parametrize("moment", each_time(["locked", "ready"], MOMENTS))
def test_ctrl_c_at_any_moment_prints_no_traceback(tmp_path: Path, moment: str) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "fairlead", "up", "--data-dir", str(data), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert until(lambda: MOMENTS[moment](process, data), 30)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=20)
    assert "Traceback" not in complaints
