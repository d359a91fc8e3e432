"""Whatever is wrong with options and files is told in a sentence that names it, never as a traceback."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.api.errors import Unauthorized
from fairlead.api.objects import Obj
from fairlead.cli.failures import Failure, explained
from fairlead.cli.main import main
from fairlead.client.kubeconfig import Access, render
from fairlead.sim.manifests import read
from fairlead.store.directory import DataDirInUse

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"


def invoke(*arguments: str) -> Result:
    found = CliRunner().invoke(main, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--node-cpu", "-4"], "cpu of a node: '-4' is not between 0 and 1M"),
        (["--node-cpu", "lots"], "cpu of a node: 'lots' is no quantity"),
        (["--node-memory", "1e40"], "memory of a node: '1e40' is not between 0 and 1Pi"),
        (["--for", ""], "no duration"),
    ],
)
def test_impossible_options_are_wrong_usage(options: list[str], message: str) -> None:
    found = invoke("simulate", *options)
    assert (found.exit_code, message in found.output) == (2, True), found.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--components", ""], "--components names none"),
        (["--components", "api,sheduler"], "unknown component sheduler"),
        (["--disable-admission-plugins", "Nonsense"], 'disable-admission-plugins plugin "Nonsense" is unknown'),
        (["--enable-admission-plugins", "A, AlwaysAdmit,B"], 'enable-admission-plugins plugin "A" is unknown, enable'),
        (["--enable-admission-plugins", "EventRateLimit"], 'couldn\'t init admission plugin "EventRateLimit": limits'),
        (["--admission-control-config-file", "pyproject.toml"], "pyproject.toml: "),
        (["--port", "7777", "--http-port", "7777"], "--port and --http-port are both 7777"),
    ],
)
def test_up_knows_its_parts_before_it_starts(options: list[str], message: str) -> None:
    found = invoke("up", "--memory", *options)
    assert (found.exit_code, message in found.output) == (2, True), found.output


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (
            "--nodes-from",
            "kind: Node\napiVersion: v1\nmetadata: {name: A_B}",
            "Node A_B cannot be stored: metadata.name",
        ),
        ("--nodes-from", "kind: Node\napiVersion: v1", "a Node has no name"),
        ("--nodes-from", "kind: Node\napiVersion: v1\nmetadata: [a]", "metadata of a Node must be a mapping"),
        ("--nodes-from", "kind: Node\napiVersion: v1\nmetadata: {name: a}\nstatus: {capacity: {cpu: x}}", "quantities"),
        ("--nodes-from", "kind: Node\napiVersion: v1\nmetadata: {name: a}\nstatus: [1]", "Node a: "),
        ("--nodes-from", "kind: List\nitems: 3", "items of a List must be a list"),
        ("--nodes-from", "kind: List\nitems: [3]", "item 1 of the List: every document needs a kind, and this is 3"),
        ("--nodes-from", "NAME READY\nweb 1/1\n", "every document needs a kind, and this is 'NAME READY web 1/1'"),
        ("--import", "kind: List\nitems: [{metadata: {name: a}}]", "item 1 of the List: every document needs a kind"),
        ("--nodes-from", POD, "holds no Node"),
        ("--pods-from", "kind: List\nitems: []", "holds no Pod"),
        ("--pods-from", POD.replace("Pod", "Deployment"), "holds Deployment p, but only pods arrive"),
        ("--pods-from", POD.replace("name: p", "name: P_P"), "Pod default/P_P cannot be stored"),
        ("--pods-from", "a: [", "yaml: line 1: "),
        ("--pods-from", "\x00", "yaml: control characters are not allowed"),
        ("--import", POD.replace("containers", "nothing"), 'Pod p: unknown field "spec.nothing"'),
        ("--import", "", "it is empty"),
        ("--import", "kind: List\nitems: []", "there is no object"),
        ("--import", "apiVersion: v1\nitems:\n- kind: Pod\n", "a list without a kind, which kubectl writes at its end"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_with_its_object(
    tmp_path: Path, option: str, text: str, message: str
) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(text)
    found = invoke("simulate", option, str(path))
    assert (found.exit_code, message in found.output) == (2, True), found.output
    assert str(path) in found.output


_LIST = """kind: List
apiVersion: v1
items:
- {kind: Pod, apiVersion: v1, metadata: {name: fine}, spec: {containers: [{name: c, image: i}]}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: broken
    namespace: default
  spec: {containers: []}
"""


@pytest.mark.parametrize("option", ["--import", "--pods-from"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (_LIST, 5),
        (f"# mine\n{POD}---\n{_LIST}", 11),
        (json.dumps(yaml.safe_load(_LIST), indent=4), 20),
    ],
)
def test_an_object_that_cannot_be_stored_is_told_with_the_line_where_it_begins(
    tmp_path: Path, option: str, text: str, line: int
) -> None:
    good, path = tmp_path / "good.yaml", tmp_path / "input.yaml"
    good.write_text("kind: Namespace\napiVersion: v1\nmetadata: {name: broken}\n")
    path.write_text(text)
    found = invoke("simulate", "--import", str(good), option, str(path))
    assert found.exit_code == 2
    assert f"{path}, line {line}: Pod default/broken cannot be stored: spec.containers" in found.output


def test_more_nodes_than_anybody_has_are_refused() -> None:
    for command in ("up", "simulate"):
        found = invoke(command, "--nodes", "99999999999999999999")
        assert (found.exit_code, "0<=x<=100000" in found.output) == (2, True), found.output


def test_a_kubeconfig_is_not_written_over_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    found = invoke("up", "--memory", "--port", "0", "--kubeconfig", str(path))
    assert (found.exit_code, "name another one with --kubeconfig" in found.output) == (2, True), found.output
    assert path.read_text() == POD


def test_a_kubeconfig_does_not_take_the_place_of_a_pipe_or_device(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = invoke("up", "--memory", "--port", "0", "--kubeconfig", str(path))
    assert (found.exit_code, "is no regular file" in found.output) == (2, True), found.output
    assert path.is_fifo()


@pytest.mark.parametrize(
    "command", [["status"], ["status", "--all"], ["down"], ["kubeconfig"], ["kubectl", "get", "pods"]]
)
def test_a_data_directory_that_cannot_be_one_is_told(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / ".fairlead").mkdir()
    (tmp_path / ".fairlead" / "lock").symlink_to("lock")  # leads nowhere, and nobody may open it
    found = invoke(*command)
    assert found.exit_code in (0, 1, 2)


def test_a_run_is_not_kept_in_the_place_of_a_device_or_a_folder(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    found = invoke("simulate", "-q", "--no-keep", "--save", str(pipe))
    assert (found.exit_code, os.read(reader, 2), pipe.is_fifo()) == (0, b"\x1f\x8b", True), found.output
    os.close(reader)
    found = invoke("simulate", "-q", "--no-keep", "--save", "")
    assert (found.exit_code, "cannot be kept" in found.output) == (1, True), found.output


def test_a_run_that_cannot_be_kept_is_told_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container often has a HOME where nothing can be written; the run may have taken an hour."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("FAIRLEAD_RUNS", str(tmp_path / "file" / "runs"))
    found = CliRunner().invoke(main, ["simulate", "-q", "--nodes", "1", "-o", "json"])
    assert found.exit_code == 0 and json.loads(found.stdout)["seed"] == 1, found.output
    assert f"cannot be kept in {tmp_path}/file" in found.stderr and "FAIRLEAD_RUNS" in found.stderr
    elsewhere = CliRunner().invoke(main, ["simulate", "-q", "--no-keep", "-o", "json", "--save", f"{tmp_path}/file/x"])
    assert elsewhere.exit_code == 1 and json.loads(elsewhere.stdout)["seed"] == 1, elsewhere.output


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs under a number that no /etc/passwd has, and without HOME, as containers do."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for variable in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "FAIRLEAD_RUNS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("uid", [0, 12345])
def test_who_has_no_home_needs_none_but_for_clusters_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    (tmp_path / "taken").touch()
    assert "taken/kubeconfig" in invoke("up", "--port", "0", "--kubeconfig", "taken/kubeconfig").output
    assert invoke("status", "--all").exit_code == 0
    assert invoke("simulate", "-q", "--nodes", "1").exit_code == 0
    for command in (["status", "--name", "dev"], ["report", "serve", "run-1"], ["diff", "run-1", "run-2"]):
        found = invoke(*command)
        assert "this user has no home folder: set HOME or XDG_" in found.output, command
        assert found.exit_code != 0


def test_dates_in_manifests_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "kind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-01T00:00:00Z, labels: {day: 2026-01-01}}"
    )
    (pod,) = read(path)
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert pod["metadata"]["labels"] == {"day": "2026-01-01"}


def test_manifests_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\nmetadata: {name: p}\nspec: {priority: 012, started: 12:30:00}\n---\nkind: Pod\n")
    first, second = read(path)
    assert first["spec"] == {"priority": 10, "started": "12:30:00"}
    assert second == {"kind": "Pod"}
    path.write_text("kind: Pod\nspec: {a: 1, a: 2}\n")
    with pytest.raises(ValueError, match=r'pod.yaml: yaml: .*\n.*key "a" already set in map'):
        list(read(path))


@pytest.mark.parametrize("option", ["--port", "--http-port"])
def test_a_port_that_is_taken_is_told_by_its_option(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = {"--port": "0"} | {option: str(port)}
        found = invoke("up", "--memory", *(word for pair in options.items() for word in pair))
    assert found.exit_code == 1
    assert f"port {port} is taken. Choose another with {option}" in found.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataDirInUse("d is in use"), "d is in use. Stop it"),
        (sqlite3.OperationalError("disk I/O error"), "the data directory cannot be used: disk I/O error"),
        (FileNotFoundError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
        (FileNotFoundError(2, "No such file or directory", "/a/b"), "/a/b cannot be: there is no folder /a. Make it"),
        (PermissionError(13, "Permission denied", "/a/b"), "no permission for /a/b"),
        (ExceptionGroup("parts", [ExceptionGroup("more", [sqlite3.DatabaseError("broken")])]), "broken"),
    ],
)
def test_failures_of_a_running_cluster_become_sentences(error: Exception, message: str) -> None:
    with pytest.raises(Failure, match=message) as found, explained():
        raise error
    assert found.value.exit_code == 1


def test_who_is_not_let_in_is_told_as_by_kubectl() -> None:
    with pytest.raises(Failure, match=r"you must be logged in to the server \(Unauthorized\)"), explained():
        raise Unauthorized("Unauthorized")


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ValueError, match="a bug"), explained():
        raise ValueError("a bug")


def test_a_credential_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    config = yaml.safe_load(render(Access("https://c.example")))
    config["users"][0]["user"]["exec"] = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "nowhere-to-be",
        "interactiveMode": "Never",
        "installHint": "Get it there.",
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    found = invoke("shares", "--kubeconfig", str(file))
    assert found.exit_code == 1 and "Traceback" not in found.output
    assert found.output.startswith("Error: getting credentials: exec: executable nowhere-to-be not found\n")
    assert found.output.rstrip().endswith("Get it there.")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"certificate-authority-data": "Z2FyYmFnZQ=="}, "the certificates of the kubeconfig cannot be used"),
        ({"certificate-authority-data": "%%%"}, "illegal base64 data at input byte 0"),
        ({"proxy-url": "socks5://proxy.example"}, 'proxy-url: unsupported scheme "socks5"'),
        ({"server": ""}, "the server of the kubeconfig is no URL: ''"),
        ({"server": "https://:::"}, "the server of the kubeconfig is no URL"),
    ],
)
def test_a_kubeconfig_that_is_of_no_use_is_told_in_a_sentence(tmp_path: Path, changed: Obj, said: str) -> None:
    config = yaml.safe_load(render(Access("https://c.example")))
    config["clusters"][0]["cluster"] |= changed
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    found = invoke("shares", "--kubeconfig", str(file))
    assert found.exit_code in (1, 2) and found.output.startswith("Error: ") and said in found.output, found.output


@pytest.mark.parametrize("command", [["why", "default/a"], ["shares"]])
def test_a_server_that_is_not_there_is_named_at_once(command: list[str], tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # nobody listens there
        server = f"http://127.0.0.1:{sock.getsockname()[1]}"
        config = tmp_path / "config"
        config.write_text(render(Access(server, token="token")))
        found = invoke(*command, "--kubeconfig", str(config))
    assert (found.exit_code, f"cannot reach {server}: " in found.output) == (1, True), found.output
    assert "Does it run (fairlead up)?" in found.output
