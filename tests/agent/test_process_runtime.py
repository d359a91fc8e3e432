"""What the runtime of a user reckons by itself: the tree that stands for cgroups, weights, logs, what it refuses."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.pods.unsupported import all_fields_of_user, fields, fields_of_user, refusal
from fairlead.agent.runtimes.oci.layout import ContainerFiles
from fairlead.agent.runtimes.process.log import Log
from fairlead.agent.runtimes.process.maker import niceness
from fairlead.agent.runtimes.process.process_groups import ProcessGroups
from fairlead.agent.runtimes.process.process_table import children_in, descendants, memory_of, process_table
from fairlead.api.objects import Obj
from fairlead.cli.main import main
from fairlead.node.cgroups.containers import ContainerValues
from tests.agent.unprivileged import as_user, environment, fairlead_command, user_pods

MIB = 1 << 20
_PTRACE_SEIZE = 0x4206
_ALL_CHILDREN = 0x40000000
POD = "/kubepods/podA"


def test_groups_are_a_tree_that_outlives_whoever_wrote_it(tmp_path: Path) -> None:
    groups = ProcessGroups(tmp_path)
    groups.ensure("/kubepods", {"memory.max": "1000"})
    groups.ensure("/kubepods/burstable/podA", {"memory.max": "100"})
    groups.ensure("/kubepods/burstable/podA/c1", {"memory.max": "50"})
    again = ProcessGroups(tmp_path)
    assert again.children("/kubepods") == {"burstable"} and again.children("/kubepods/burstable") == {"podA"}
    assert again.read("/kubepods/burstable/podA", "memory.max") == "100"
    assert again.read("/kubepods/burstable/podB", "memory.max") is None
    again.forget("c1")
    assert again.children("/kubepods/burstable/podA") == set()
    assert again.remove("/kubepods/burstable/podA") and not ProcessGroups(tmp_path).exists("/kubepods/burstable/podA")
    assert ProcessGroups(tmp_path).exists("/kubepods")


def test_a_file_that_was_cut_off_is_as_none(tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text('{"/kubepods": {"memory')
    assert not ProcessGroups(tmp_path).exists("/kubepods")


def test_nobody_is_killed_where_nothing_runs(tmp_path: Path) -> None:
    groups = ProcessGroups(tmp_path)
    groups.ensure("/kubepods", {"memory.max": "1"})
    assert groups.kill_who_exceeds() == [] and groups.processes("/kubepods") == set()


@contextmanager
def containers(root: Path, mebibytes: Mapping[str, int], within: Sequence[str] = ()) -> Iterator[ProcessGroups]:
    """By id: containers of one pod whose one process holds that much, each with a program that keeps it."""
    script = "import sys; held = b'x' * (int(sys.argv[1]) << 20); print('ready', flush=True); sys.stdin.read()"
    groups = ProcessGroups(root)
    with ExitStack() as stack:
        for id_, amount in mebibytes.items():
            holding = [*within, sys.executable, "-S", "-c", script, str(amount)]
            command = ["sh", "-c", '"$@"; true', id_, *holding]
            keeper = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            assert keeper.stdin is not None and keeper.stdout is not None
            stack.callback(keeper.stdin.close)
            assert keeper.stdout.readline() == b"ready\n"
            files = ContainerFiles(root / "containers" / id_)
            files.folder.mkdir(parents=True)
            files.keeper_pid.write_text(str(keeper.pid))
            groups.ensure(f"{POD}/{id_}", {"memory.oom.group": "1"})
        yield groups


def test_what_one_container_loses_is_not_held_against_its_pod(tmp_path: Path) -> None:
    with containers(tmp_path, {"greedy": 64, "modest": 48}) as groups:
        groups.write(POD, {"memory.max": str(100 * MIB)})
        groups.write(f"{POD}/greedy", {"memory.max": str(16 * MIB)})
        assert groups.kill_who_exceeds() == ["greedy"]
        assert groups.read(f"{POD}/greedy", "memory.events") == "oom_kill 1"
        assert groups.processes(f"{POD}/modest")


def test_all_who_exceed_are_ended_after_one_look_at_the_machine(tmp_path: Path) -> None:
    amounts = {f"c{number}": 24 for number in range(4)}
    with containers(tmp_path, amounts) as groups:
        for id_ in amounts:
            groups.write(f"{POD}/{id_}", {"memory.max": str(8 * MIB)})
        with opened(f"/proc/{os.getpid()}/stat") as looks:
            assert sorted(groups.kill_who_exceeds()) == sorted(amounts)
        assert len(looks) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a namespace of processes alone")
def test_containers_that_see_each_other_are_counted_apart(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["unshare", "--pid", "sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        pid = int(first.stdout.readline())
        try:
            within = ["nsenter", f"--target={pid}", "--pid"]
            with containers(tmp_path, {"big": 64, "small": 4}, within) as groups:
                groups.write(f"{POD}/small", {"memory.max": str(32 * MIB)})
                assert groups.kill_who_exceeds() == []
        finally:
            os.kill(pid, signal.SIGKILL)  # and with it the namespace


@contextmanager
def opened(path: str) -> Iterator[list[str]]:
    """Each time that it is opened in the block."""
    found: list[str] = []
    is_over = False

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and not is_over and arguments[0] == path:
            found.append(path)

    sys.addaudithook(hear)  # which nobody can take away again
    try:
        yield found
    finally:
        is_over = True


def test_what_comes_from_a_process_is_found_with_what_it_uses() -> None:
    script = "import sys; held = b'x' * (32 << 20); print('ready', flush=True); sys.stdin.read()"
    command = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-S", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        assert shell.stdout.readline() == b"ready\n"
        found = list(descendants(children_in(process_table()), shell.pid))
        assert sum(memory_of(pid).anonymous for pid in found) >= 32 * MIB
        shell.stdin.close()
    assert list(descendants(children_in(process_table()), shell.pid)) == []


@given(st.integers(2, 1 << 18), st.integers(2, 1 << 18))
def test_more_cpu_is_never_nicer(one: int, other: int) -> None:
    less, more = (niceness(_shares(shares)) for shares in sorted((one, other)))
    assert 0 <= more <= less <= 19


@pytest.mark.parametrize(("shares", "expected"), [(2, 19), (102, 10), (1024, 0), (4096, 0)])
def test_niceness_of_requests(shares: int, expected: int) -> None:
    assert niceness(_shares(shares)) == expected


def _shares(shares: int) -> ContainerValues:
    return ContainerValues(cpu_shares=shares, cpu_quota=0, cpu_period=0, memory_limit=0, oom_score_adj=0)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8))
def test_a_log_has_all_that_was_said(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "deep", "c.log")
        log = Log(str(path))
        for piece in pieces:
            log.write(2, piece)
        entries = path.read_bytes().split(b"\n")[:-1]
    said = b""
    for entry in entries:
        found = re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z stdout ([FP]) (.*)", entry, re.DOTALL)
        assert found is not None, entry
        said += found[2] + (b"\n" if found[1] == b"F" else b"")
    assert said == b"".join(pieces)


def test_rows_of_a_user_are_rows_of_everybody() -> None:
    for type_, rows in fields_of_user().items():
        for name, row in rows.items():
            assert name in fields()[type_] and row.note
            assert row.type in ("", fields()[type_][name].type)
    assert all_fields_of_user().keys() == fields().keys()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"securityContext": {"privileged": True}}, "securityContext.privileged true"),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, "seccompProfile.type RuntimeDefault"),
    ],
)
def test_what_a_user_cannot_give_is_refused_by_name(spec: Obj, field: str) -> None:
    manifest = {"spec": {"containers": [{"name": "c", "image": "i", **spec}]}}
    assert refusal(manifest) is None
    found = refusal(manifest, has_root=False)
    assert found is not None and f"{field} is not supported by this node" in found.message


def test_a_node_without_root_takes_a_pod_that_knows_its_user() -> None:
    security = {"runAsUser": 1000, "fsGroup": 2000, "seccompProfile": {"type": "Unconfined"}}
    container = {"name": "c", "image": "i", "securityContext": {"capabilities": {"drop": ["ALL"]}}}
    assert refusal({"spec": {"containers": [container], "securityContext": security}}, has_root=False) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="it is root who is refused")
@pytest.mark.parametrize(
    "words", [("up", "--memory", "--node-runtime", "process"), ("node", "run", "--runtime", "process")]
)
def test_root_is_told_to_take_another_runtime(words: list[str]) -> None:
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 2 and "process is for users without root: choose" in said.output


@user_pods
def test_a_user_without_root_is_told_of_the_runtime_that_takes_none(tmp_path: Path) -> None:
    command = as_user(*fairlead_command("up", "--memory", "--node-runtime", "oci"))
    done = subprocess.run(command, cwd="/", env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 2 and "choose --node-runtime process" in done.stderr


_KEEPER_WITH_A_CHILD = """
import os, signal
from fairlead.agent.runtimes.process.keeper import _end_all
pid = os.fork()
if pid == 0:
    signal.pause()
print(pid, flush=True)
input()
_end_all("container")
"""


def test_who_cannot_be_buried_is_waited_for_without_haste() -> None:
    """As one whom another container traces, and does not let go."""
    libc, pipe = ctypes.CDLL(None, use_errno=True), subprocess.PIPE
    command = [sys.executable, "-c", _KEEPER_WITH_A_CHILD]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as keeper:
        assert keeper.stdin is not None and keeper.stdout is not None
        child = int(keeper.stdout.readline())
        try:
            assert libc.ptrace(_PTRACE_SEIZE, child, None, None) == 0
            before = process_table()[keeper.pid]
            keeper.stdin.write("\n")
            keeper.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                keeper.wait(1.0)
            used = process_table()[keeper.pid].own_nanoseconds - before.own_nanoseconds
            assert used < 500_000_000
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, _ALL_CHILDREN)  # whoever traces lets go by that
        assert keeper.wait(10) == 0
