"""`fairlead simulate` with changes, as a platform engineer uses it; `fairlead why --in` and `diff` after it."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import main
from fairlead.sim.costs import PRICE
from tests.study.clusters import deployment, namespace, node, quota

CHANGE = "apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n"
CLASS_X = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: x}, value: 17}"


@pytest.fixture(autouse=True)
def _own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Two full nodes, and one that is nearly empty."""
    objects = [node("a"), node("b"), node("c"), *deployment("web", ["a", "b"], cpu="3"), *deployment("db", ["c"])]
    path = tmp_path / "prod.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def fairlead(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def simulated(dump: str, *arguments: str, duration: str = "2h") -> Result:
    return fairlead("simulate", "--import", dump, "--for", duration, *arguments)


def document(dump: str, *arguments: str, duration: str = "2h") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(simulated(dump, "-q", "-o", "json", *arguments, duration=duration).stdout)
    return found


def test_before_and_after_stand_side_by_side_in_the_same_bytes_every_time(dump: str) -> None:
    first, second = simulated(dump, "--remove-node", "a"), simulated(dump, "--remove-node", "a")
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    assert first.stdout.startswith("Replayed 2h of 3 nodes, 3 pods (seed 1, digest ")
    assert "before      after" in first.stdout
    assert "placed 3 3" in " ".join(first.stdout.split())
    assert "lost with its node: PodGC: node no longer exists" in first.stdout
    assert "after: remove node a" in first.stdout
    assert "took" in first.stderr
    assert "took" not in first.stdout


def test_what_happened_to_a_pod_can_be_asked_afterwards(dump: str) -> None:
    run = document(dump, "--set", "nodes=1")
    waiting = next(pod for pod in run["variants"][0]["worse"] if pod["how"] == "waits")
    told = fairlead("why", waiting["pod"], "--in", run["run"])
    assert told.exit_code == 0
    assert told.stdout.startswith(f"changed: {waiting['pod']} has waited 1h 59m, since ")
    assert "Insufficient cpu" in told.stdout
    assert "after: set nodes=1" in told.stdout
    assert fairlead("why", waiting["pod"], "--in", "run-nope").exit_code == 2
    assert "no pod in namespace 'nope'" in fairlead("why", "nope/x", "--in", run["run"]).stderr


def test_of_who_waited_and_was_placed_at_last_it_is_told_for_what(dump: str, tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    more = "- scale: {name: web, replicas: 4}\n- at: 10m\n  addNodes: {count: 1, like: a}\n"
    change.write_text("apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n" + more)
    told = simulated(dump, "--change", str(change)).stdout
    reason = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    assert f"  waited 10m, from 12:00 on: {reason}" in told
    pod = next(line.split()[0] for line in told.splitlines() if "  waited 10m, " in line)
    run = told.split()[-1]
    assert f"  {reason}" in fairlead("why", pod, "--in", run).stdout
    never = fairlead("why", "default/typo", "--in", run).stdout
    assert "tells nothing of it: if there was a pod of that name, it waited for nothing" in never


def test_two_runs_are_compared(dump: str) -> None:
    one, two = document(dump, "--drain", "a"), document(dump, "--drain", "b")
    compared = fairlead("diff", f"{one['run']}:before", two["run"])
    assert compared.exit_code == 0
    assert "web-5f6d7c8b9-00001" in compared.stdout
    assert "there are before, changed" in fairlead("diff", f"{one['run']}:x", two["run"]).stderr


def test_a_difference_of_two_runs_says_which_run_to_ask(dump: str, tmp_path: Path) -> None:
    first, second = document(dump, "--remove-node", "c"), document(dump, "--remove-node", "a")
    told = fairlead("diff", first["run"], second["run"]).stdout
    question = next(line for line in told.splitlines() if line.startswith("Why "))
    arguments = question.partition("fairlead ")[2].split()
    assert "lost with its node" in fairlead(*arguments).stdout


def test_a_run_that_is_damaged_or_of_another_version_is_one_sentence(dump: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept.gz"
    simulated(dump, "--remove-node", "a", "--save", str(kept))
    whole = kept.read_bytes()
    turned = bytearray(whole)
    turned[len(whole) // 2] ^= 0xFF
    written = json.loads(gzip.decompress(whole))
    older = written | {"format": written["format"] - 1, "outcomes": [{"name": "before"}]}
    texts = {
        bytes(turned): "is no run of fairlead simulate, or is damaged",
        whole[: len(whole) // 2]: "is no run of fairlead simulate, or is damaged",
        gzip.compress(b'{"format": "\xff"}'): "is no run of fairlead simulate, or is damaged",
        gzip.compress(json.dumps(written | {"outcomes": []}).encode()): "of fairlead simulate, or is damaged",
        gzip.compress(json.dumps(older).encode()): "is a run of another version of fairlead: simulate it again",
    }
    for content, problem in texts.items():
        kept.write_bytes(content)
        for command in (("diff", str(kept), str(kept)), ("why", "web", "--in", str(kept))):
            refused = fairlead(*command)
            assert refused.exit_code == 2
            assert problem in refused.stderr
            assert len(refused.stderr.splitlines()) == 1
    simulated(dump)
    for name in ("", "*", "**", "run-" * 100):
        refused = fairlead("why", "web", "--in", name)
        assert refused.exit_code == 2
        assert f"there is no run {name!r}" in refused.stderr


def test_a_run_is_kept_while_another_process_forgets_the_oldest(dump: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "run-gone.json.gz").symlink_to("nowhere")  # as what is listed, and gone when it is looked at
    assert "cannot be kept" not in simulated(dump).stderr


def test_jobs_that_a_quota_keeps_from_running_are_missed(tmp_path: Path) -> None:
    """They wait nowhere: their pods are never created."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"schedule": "*/10 * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": template}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "default"}}
    objects = [node("a"), quota("cap", "default", requests_cpu="4", pods="50"), cron | {"spec": spec}]
    path = tmp_path / "prod.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    arguments = ("--set", "quota/default/requests.cpu=500m")
    told = simulated(str(path), *arguments).stdout
    assert "No pod fares worse, of those that came." in told
    fewer = "default/CronJob/report  0 instead of 11: Error creating: pods "
    assert f"11 pods fewer came than before:\n  {fewer}" in told
    (line,) = (line for line in told.splitlines() if line.startswith("  default/cap "))
    assert "refused" in line
    assert line.endswith("requests.cpu: 0 of 500m used")
    run = document(str(path), *arguments)
    (missing,) = run["variants"][0]["missing"]
    assert (missing["workload"], missing["pods"], missing["pods_before"]) == ("CronJob/report", 0, 11)
    assert fewer in fairlead("why", "default/report", "--in", run["run"]).stdout


def test_pods_that_are_refused_are_told_of_without_a_change_too(tmp_path: Path) -> None:
    """By a quota, and by whatever else."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "small"}}
    big = web | {"metadata": {"name": "web", "namespace": "strict"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "strict"}}
    limits["spec"] = {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]}
    objects = [node("a"), quota("cap", "small", requests_cpu="1"), limits, web | {"spec": spec}, big | {"spec": spec}]
    path, kept = tmp_path / "by-hand.json", tmp_path / "run.json.gz"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    told = fairlead("simulate", "--import", str(path), "--for", "5m", "--save", str(kept)).stdout
    head, _, rest = told.partition("\nWhat else is refused:\n")
    assert "Quotas that refuse" in head
    assert "small/cap  refused " in head
    assert "small/Deployment/web could not create pods: Error creating: pods " in head
    assert "strict/Deployment/web could not create pods: " in rest
    assert "must be less than or equal to cpu limit of 500m" in rest
    assert "strict/ReplicaSet/web-" in fairlead("why", "strict/web", "--in", str(kept)).stdout
    swept = fairlead("simulate", "--import", str(path), "--sweep", "nodes=2..4", "--for", "5m").stdout
    assert swept.count("strict/Deployment/web could not create pods") == 1  # no variant has brought it
    report = tmp_path / "report.html"
    assert fairlead("simulate", "--import", str(path), "--set", "nodes=2", "--for", "5m", "--html", str(report))
    assert "<h3>What else is refused</h3><ul><li>strict/Deployment/web could not create pods" in report.read_text()


def test_a_step_after_the_end_is_told_of(dump: str, tmp_path: Path) -> None:
    path = tmp_path / "late.yaml"
    path.write_text("apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n- at: 3h\n  drain: a\n")
    told = simulated(dump, "--change", str(path))
    assert told.exit_code == 0
    assert f"{path}, line 4: drain a would come after 3h, when the run has ended" in told.stderr


def test_of_gpus_it_is_told_how_many_were_requested(tmp_path: Path) -> None:
    objects = [node("a"), node("b"), *deployment("train", ["a"])]
    for obj in objects[:2]:
        obj["status"]["capacity"] |= {"nvidia.com/gpu": "8"}
        obj["status"]["allocatable"] |= {"nvidia.com/gpu": "8"}
    objects[-1]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    report = tmp_path / "report.html"
    told = simulated(str(path), "--remove-node", "b", "--html", str(report)).stdout
    assert "nvidia.com/gpu, mean 25% 50%" in " ".join(told.split())
    assert "nvidia.com/gpu requested" in report.read_text()


def test_each_file_is_a_variant(dump: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(
            f"apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n- drain: {'a' if name == 'first' else 'b'}\n"
        )
    run = document(dump, "--change", str(tmp_path / "first.yaml"), "--change", str(tmp_path / "second.yaml"))
    assert [variant["name"] for variant in run["variants"]] == ["first", "second"]
    assert {variant["worse"][0]["pod"] for variant in run["variants"]} == {
        "default/web-5f6d7c8b9-00000",
        "default/web-5f6d7c8b9-00001",
    }


def test_a_drain_that_hangs_is_told_in_every_form(tmp_path: Path) -> None:
    meta = {"name": "web", "namespace": "default"}
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    dump, rules = tmp_path / "prod.json", tmp_path / "rules.yaml"
    items = [node("a"), node("b"), *deployment("web", ["a", "b"]), budget]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    rules.write_text("expect:\n- notEvicted: 0\n")
    found = simulated(str(dump), "--drain", "a", "--expect", str(rules), duration="10m")
    text = "default/web-5f6d7c8b9-00000 cannot be evicted from a: The disruption budget web needs 2 healthy pods"
    assert f"Not done at the end:\n  12:00 drain a\n  {text}" in found.stdout
    assert (found.exit_code, "NOT MET  notEvicted is 1, asked: at most 0" in found.stdout) == (1, True)
    run = document(str(dump), "--drain", "a", duration="10m")
    assert f"changed: {text}" in fairlead("why", "default/web-5f6d7c8b9-00000", "--in", run["run"]).stdout
    (variant,) = run["variants"]
    assert variant["steps"][0]["ended"] is False
    assert [held["pod"] for held in variant["heldUp"]] == ["default/web-5f6d7c8b9-00000"]


def test_no_two_variants_have_one_name(dump: str, tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(
        "apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nmetadata: {name: before}\nsteps: [{drain: a}]\n"
    )
    (variant,) = document(dump, "--change", str(change), duration="1m")["variants"]
    assert variant["name"] == str(change)
    twice = simulated(dump, "--change", str(change), "--change", str(change))
    assert (twice.exit_code, "a file is given to --change twice" in twice.stderr) == (2, True)


def test_rules_decide_the_exit_code(dump: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("expect:\n- name: nobody waits\n  waiting: 0\n")
    rules = str(tmp_path / "rules.yaml")
    assert simulated(dump, "--drain", "a", "--expect", rules).exit_code == 0
    broken = simulated(dump, "--set", "nodes=1", "--expect", rules)
    assert broken.exit_code == 1
    assert "NOT MET  nobody waits: waiting is 1, asked: at most 0" in broken.stdout


def test_all_files_of_rules_count_and_no_sweep_is_left_out(dump: str, tmp_path: Path) -> None:
    for name, rule in (("loose", "waiting: 9"), ("strict", "{of: {namespace: default, priority: 0}, waiting: 0}")):
        (tmp_path / f"{name}.yaml").write_text(f"expect:\n- {rule}\n")
    for names in (("loose", "strict"), ("strict", "loose")):
        files = [argument for name in names for argument in ("--expect", str(tmp_path / f"{name}.yaml"))]
        found = simulated(dump, "--set", "nodes=1", *files)
        assert (found.exit_code, "met      waiting is 1, asked: at most 9" in found.stdout) == (1, True)
        assert "NOT MET  waiting of default, priority 0 is 1, asked: at most 0" in found.stdout
    twice = simulated(dump, "--sweep", "nodes=1..2", "--sweep", "quota/default/pods=1..2")
    assert (twice.exit_code, "--sweep is given twice" in twice.stderr) == (2, True)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{variant: nope, waiting: 0}", "there is no variant 'nope': there are changed"),
        ("{of: {namespace: nope}, waiting: 0}", "no pod is in namespace 'nope'"),
        ("{of: {priority: 17}, waiting: 0}", "no pod has the priority 17"),
        ("{cost: 5}", "no node has a price, so there is no cost"),
    ],
)
def test_a_rule_that_cannot_be_judged_is_refused_before_the_run(
    dump: str, tmp_path: Path, rule: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[object] = []
    monkeypatch.setattr("fairlead.cli.simulate.play_all", lambda *scene: played.append(scene))
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"expect:\n- waiting: 0\n- {rule}\n")
    refused = simulated(dump, "--drain", "a", "--expect", str(rules))
    assert (refused.exit_code, played) == (2, [])
    assert f"rules.yaml, line 3: {problem}" in refused.stderr


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("{of: {priority: 17}, waiting: 0}", f"apply: {CLASS_X}"),
        ("{of: {priority: 17}, waiting: 0}", "set: priorityclass/gold/value=17"),
        ("{cost: 50}", "pool: {name: spare, min: 1, max: 2, pricePerHour: 2}"),
        ("{cost: 50}", f"patch: {{kind: node, name: a, patch: {{metadata: {{annotations: {{{PRICE}: '2'}}}}}}}}"),
    ],
)
def test_a_rule_about_what_the_change_may_bring_is_judged(dump: str, tmp_path: Path, rule: str, steps: str) -> None:
    objects = json.loads(Path(dump).read_text())["items"]
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
    whole, change, rules = tmp_path / "whole.json", tmp_path / "change.yaml", tmp_path / "rules.yaml"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, gold]}))
    pod = "- apply: {apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {%s, containers: [{name: c, image: i}]}}"
    of = next((f"priorityClassName: {name}" for name in ("gold", "x") if name in steps and "17" in rule), "hostname: n")
    change.write_text(f"{CHANGE}- {steps}\n- at: 1m\n  {pod[2:] % of}\n")
    rules.write_text(f"expect:\n- {rule}\n")
    found = simulated(str(whole), "--change", str(change), "--expect", str(rules), duration="10m")
    assert (found.exit_code, "met " in found.stdout) == (0, True), found.output


def test_a_search_asks_its_rules_of_every_value(dump: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("expect:\n- {variant: nodes=3, waiting: 0}\n")
    asked = ("--sweep", "nodes=2..4", "--expect", str(rules))
    assert "leave out variant" in simulated(dump, *asked, "--find", "smallest").stderr
    assert simulated(dump, *asked).exit_code == 0


def test_a_priority_class_that_is_set_is_that_of_new_pods_alone(dump: str, tmp_path: Path) -> None:
    """As where somebody deletes it and makes it anew: it may not be changed."""
    objects = json.loads(Path(dump).read_text())["items"]
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
    spec = {"priorityClassName": "gold", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}
    old = pod | {"metadata": {"name": "old", "namespace": "default"}, "spec": spec | {"priority": 9}}
    whole, change = tmp_path / "whole.json", tmp_path / "change.yaml"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, gold, old]}))
    change.write_text(f"{CHANGE}- set: priorityclass/gold/value=17\n- at: 1m\n  apply: {json.dumps(pod)}\n")
    (variant,) = document(str(whole), "--change", str(change), duration="10m")["variants"]
    assert {(wait["priority"], wait["pods"]) for wait in variant["waits"] if wait["priority"]} == {(9, 1), (17, 1)}


def test_a_rule_that_compares_needs_a_change(dump: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("expect:\n- waiting: {notMoreThanBefore: true}\n")
    assert "notMoreThanBefore takes a change to compare with" in simulated(dump, "--expect", str(rules)).stderr
    assert simulated(dump, "--drain", "a", "--expect", str(rules)).exit_code == 0


def test_rules_may_speak_of_namespaces_that_the_change_brings(dump: str, tmp_path: Path) -> None:
    pod = {"metadata": {"name": "first", "namespace": "new"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    change, rules = tmp_path / "change.json", tmp_path / "rules.yaml"
    change.write_text(json.dumps(namespace("new")) + "\n---\n" + json.dumps(pod | {"apiVersion": "v1", "kind": "Pod"}))
    rules.write_text("expect:\n- {of: {namespace: new}, waiting: 0}\n")
    assert simulated(dump, "--change", str(change), "--expect", str(rules)).exit_code == 0


def test_a_namespace_that_is_deleted_is_told_in_every_form_and_not_as_a_complaint(dump: str, tmp_path: Path) -> None:
    objects = [*json.loads(Path(dump).read_text())["items"], namespace("team"), *deployment("etl", ["c", "c"], "team")]
    whole, change = tmp_path / "team.json", tmp_path / "change.yaml"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    change.write_text(CHANGE + "- at: 10m\n  delete: {kind: namespace, name: team}\n")
    arguments = ("fairlead", "simulate", "-q", "--import", str(whole), "--change", str(change), "--for", "1h")
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    told = "team/Deployment/etl  2 pods gone since 12:10, after: delete namespace team"
    assert "No pod fares worse, of those that came and are still there." in done.stdout
    assert f"Not there any more:\n  {told}" in done.stdout
    run = document(str(whole), "--change", str(change), "--html", str(tmp_path / "report.html"))
    assert [it["workload"] for it in run["variants"][0]["gone"]] == ["Deployment/etl"]
    assert f"<li>{told}</li>" in (tmp_path / "report.html").read_text()
    assert told in fairlead("why", "team/etl", "--in", run["run"]).stdout


def test_a_study_that_is_killed_leaves_nobody_behind(dump: str) -> None:
    """Its processes hold the pipe for as long as they are there."""
    command = [sys.executable, "-m", "fairlead", "simulate", "--no-keep", "--import", dump, "--for", "90d"]
    command += ["--set", "deployment/default/web/spec.replicas=60000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as study:
        assert study.stderr is not None
        while not study.stderr.readline().startswith("import: loaded"):
            assert study.poll() is None
        study.terminate()
        study.communicate(timeout=60)
    assert study.returncode == -signal.SIGTERM


def test_of_a_run_that_takes_long_it_is_said_how_far_it_is(dump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.cli.simulate._SILENT_SECONDS", 0.0)
    told = [line for line in simulated(dump).stderr.splitlines() if line.startswith("still playing before: ")]
    assert [line.partition(" of ")[2] for line in told] == ["2h, 3 pods so far"]
    assert "still playing" not in simulated(dump, "-q").stderr


@pytest.mark.parametrize("value", ["deployment/default/web/spec.replicas=2000000", "nodes=2"])
def test_more_pods_than_can_be_meant_are_refused(dump: str, tmp_path: Path, value: str) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(CHANGE + "- at: 1h\n  scale: {name: web, replicas: 2000000}\n")
    refused = simulated(dump, "--set", value, "--change", str(change))
    assert refused.exit_code == 2
    where = f"--set {value}" if "replicas" in value else "change.yaml, line 4"
    assert where in refused.stderr
    assert "replicas: 2,000,000 pods are more than any cluster has" in refused.stderr


def test_the_smallest_number_of_nodes_that_suffices_is_found(dump: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("expect:\n- waiting: 0\n")
    run = document(dump, "--sweep", "nodes=1..6", "--find", "smallest", "--expect", str(tmp_path / "rules.yaml"))
    assert run["found"] == "2"
    searched = ("--find", "smallest", "--expect", str(tmp_path / "rules.yaml"))
    assert simulated(dump, "--sweep", "nodes=1..3", *searched).stdout.endswith(
        "nodes: 2 is the smallest that meets the rules\n"
    )
    assert simulated(dump, "--sweep", "nodes=0..1", *searched).stdout.endswith(
        "nodes: none from 0 to 1 meets the rules\n"
    )


def test_a_report_is_one_file_that_needs_no_network(dump: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert simulated(dump, "--set", "nodes=1", "--html", str(path)).exit_code == 0
    text = path.read_text()
    assert "fare worse" in text
    assert '<script src="http' not in text
    assert "<link" not in text
    assert len(text) < 5_000_000
    assert "<h3>What changed</h3><ul><li>12:00 " in text
    assert "<h3>Waits</h3>" in text


@pytest.mark.parametrize(("options", "library"), [(("--html", "report.html"), "bokeh"), (("-o", "parquet"), "pyarrow")])
def test_what_an_extra_brings_is_missed_before_the_run(
    dump: str, monkeypatch: pytest.MonkeyPatch, options: tuple[str, str], library: str
) -> None:
    monkeypatch.setattr("fairlead.study.export.find_spec", lambda name: None)
    found = simulated(dump, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"takes {library}: pip install 'fairlead[report]'" in found.stderr
    assert "took" not in found.stderr


def test_a_table_names_the_preemptor(tmp_path: Path) -> None:
    vip = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vip", "namespace": "default"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    vip |= {"spec": {"priorityClassName": "system-node-critical", "containers": [container]}}
    objects = [node("a"), *deployment("low", ["a"], cpu="3")]
    dump, change = tmp_path / "prod.json", tmp_path / "vip.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    change.write_text(json.dumps(vip))
    rows = simulated(str(dump), "--change", str(change), "-o", "csv").stdout.splitlines()
    assert any(row.endswith(",preempted,by default/vip") for row in rows)


@pytest.mark.slow
def test_reports_of_equal_runs_are_equal_files(dump: str, tmp_path: Path) -> None:
    paths = [tmp_path / "first.html", tmp_path / "second.html"]
    for path in paths:
        options = ["simulate", "--import", dump, "--for", "10m", "--remove-node", "a", "-q", "--html", str(path)]
        subprocess.run([sys.executable, "-m", "fairlead", *options], check=True, stdout=subprocess.DEVNULL)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_pods_come_as_a_table(dump: str) -> None:
    head, *rows = simulated(dump, "-q", "--set", "nodes=1", "-o", "csv").stdout.splitlines()
    assert head.startswith("variant,namespace,pod,lineage,priority")
    assert any(",True," in row and "Insufficient cpu" in row for row in rows)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--remove-node", "z"], "--remove-node z: there is no node 'z'"),
        (["--set", "nodes"], "'nodes' sets nothing"),
        (["--set", "nodes=many"], "no number of nodes"),
        (["--find", "smallest"], "--find takes a --sweep"),
        (["--sweep", "nodes=5"], "write WHAT=FIRST..LAST"),
        (["--set", "quota/default/requests.cpu=1"], "namespace 'default' has no ResourceQuota"),
    ],
)
def test_a_change_that_means_nothing_is_one_sentence(dump: str, options: list[str], problem: str) -> None:
    result = simulated(dump, "-q", *options)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr


def test_no_secret_is_needed(tmp_path: Path) -> None:
    """What pods ask of ConfigMaps and Secrets is taken to be there where a dump has none."""
    env = [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    container = {"name": "c", "image": "i", "env": env}
    volumes = [{"name": "v", "configMap": {"name": "m", "items": [{"key": "x", "path": "x"}]}}]
    objects = [node("a"), node("b"), *deployment("web", ["a", "b"], containers=[container], volumes=volumes)]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    path = tmp_path / "prod.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, budget]}))
    change = tmp_path / "change.yaml"
    steps = "- drain: a\n- at: 10m\n  uncordon: a\n- at: 20m\n  drain: b\n"
    change.write_text(f"apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n{steps}")
    after = document(str(path), "--change", str(change))["variants"][0]
    hurt = {pod["pod"] for pod in after["worse"]}
    assert "default/web-5f6d7c8b9-00001" in hurt, "the budget would forbid it, were what replaces the first not ready"


def test_what_namespaces_deserve_and_use_is_told_where_an_arbitrator_divides(tmp_path: Path) -> None:
    """A weight that is changed changes what is deserved."""
    consumers = [
        {
            "apiVersion": "kube-arbitrator.incubator.k8s.io/v1",
            "kind": "Consumer",
            "metadata": {"name": "defaults", "namespace": name},
            "spec": {"weight": 1},
        }
        for name in ("one", "two")
    ]
    objects = [*map(namespace, ("one", "two")), *consumers, node("a", cpu="8")]
    for name in ("one", "two"):
        objects += deployment("web", ["a"] * 4, name)
        objects[-6]["spec"]["replicas"] = 8
    path = tmp_path / "shared.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    arguments = ("--arbitrator", "--set", "weight/one=3")
    after = document(str(path), *arguments, duration="5m")["variants"][0]
    shares = {entry["namespace"]: entry["deserved"] for entry in after["fairness"]}
    assert shares["one"] == pytest.approx(0.75, abs=0.01)
    assert shares["two"] == pytest.approx(0.25, abs=0.01)
    one = next(entry for entry in after["fairness"] if entry["namespace"] == "one")
    assert len(one["deserved_over_time"]) == len(one["used_over_time"]) == 24
    assert one["deserved_over_time"][-1] == pytest.approx(0.75, abs=0.01)
    assert "50% → 7" in simulated(str(path), "-q", *arguments, duration="5m").stdout


def test_pods_that_ask_for_a_scheduler_that_is_not_played_are_placed(tmp_path: Path) -> None:
    objects = [node("a"), node("b"), *deployment("web", ["a"], schedulerName="volcano")]
    path, own = tmp_path / "prod.json", tmp_path / "own.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    moved = simulated(str(path), "--drain", "a")
    assert "the scheduler volcano is not played, and default-scheduler takes its place (of 3 objects)" in moved.stderr
    assert "waiting at the end 0 0" in " ".join(moved.stdout.split())

    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    own.write_text(json.dumps(kind | {"profiles": [{"schedulerName": "volcano"}]}))
    assert "is not played" not in simulated(str(path), "--scheduler-config", str(own), "--drain", "a").stderr
