"""`fairlead simulate --import`: a dump goes on from the moment at which it was taken, and the report adds up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.api.objects import Obj
from fairlead.cli.main import main

TAKEN = "2031-05-06T07:08:09Z"


def node(name: str, cpu: str = "4") -> Obj:
    capacity = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    meta = {"name": name, "uid": name, "creationTimestamp": "2031-01-01T00:00:00Z"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": TAKEN, "lastTransitionTime": TAKEN}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(name: str, cpu: str, on: str = "") -> Obj:
    spec: Obj = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    status: Obj = {"phase": "Running" if on else "Pending"}
    meta = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": TAKEN}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec | ({"nodeName": on} if on else {}),
        "status": status,
    }


def dump(folder: Path, *objects: Obj) -> str:
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def simulated(*options: str, stdin: str = "") -> Result:
    found = CliRunner().invoke(main, ["simulate", *options], input=stdin)
    assert "Traceback" not in found.output
    return found


def summary(*options: str, stdin: str = "") -> Obj:
    found = simulated(*options, "-q", "-o", "json", stdin=stdin)
    assert found.exit_code == 0, found.output
    decoded: Obj = msgspec.json.decode(found.stdout)
    return decoded


def test_a_settled_cluster_is_as_full_as_it_is(tmp_path: Path) -> None:
    path = dump(tmp_path, node("a"), pod("p", "3", on="a"))
    result = summary("--import", path)
    assert (result["seconds"], result["began"]) == (0.0, TAKEN)
    assert result["utilisation"]["cpu"]["mean"] == result["utilisation"]["cpu"]["peak"] == 0.75
    assert "Nothing happens to 1 node, 1 pod: settled from the start" in simulated("--import", path).stdout


def test_what_was_on_a_node_that_is_missing_counts_for_nothing(tmp_path: Path) -> None:
    """Two thirds of the cpu are requested there; on the nodes that are left, never more than there is."""
    path = dump(tmp_path, node("a"), pod("p", "4", on="a"), pod("q", "4", on="lost"), pod("r", "4", on="lost"))
    cpu = summary("--import", path, "--for", "1h")["utilisation"]["cpu"]
    assert (cpu["mean"], cpu["peak"]) == (1.0, 1.0)


def test_time_goes_on_where_the_dump_was_taken_so_that_a_cron_job_fires(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job: Obj = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "hourly", "namespace": "default", "uid": "h", "creationTimestamp": "2031-01-01T00:00:00Z"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}},
        "status": {"lastScheduleTime": "2031-05-06T07:00:00Z"},
    }
    result = summary("--import", dump(tmp_path, node("a"), job), "--for", "3h")
    assert (result["began"], result["placed"]) == (TAKEN, 3)
    assert "stopping after 24h" in simulated("--import", dump(tmp_path, node("a"), job)).stderr


def test_whoever_waits_at_the_end_is_listed_with_the_reason(tmp_path: Path) -> None:
    path = dump(tmp_path, node("a"), pod("big", "5"))
    (waiting,) = summary("--import", path, "--for", "10m")["waitingPods"]
    assert (waiting["pod"], waiting["since"], waiting["seconds"]) == ("default/big", TAKEN, 600)
    assert waiting["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "10m  default/big: 0/1 nodes are available" in simulated("--import", path, "--for", "10m").stdout


def test_unknown_kinds_are_skipped_and_named_and_the_rest_is_loaded(tmp_path: Path) -> None:
    unknown = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "a"}}
    found = simulated("--import", dump(tmp_path, unknown, node("a"), pod("p", "1"), dict(unknown)))
    assert found.exit_code == 0
    assert "import: loaded 1 Node, 1 Pod\n" in found.stderr
    assert "import: skipped 2 Certificate (cert-manager.io/v1): not served here\n" in found.stderr


def test_a_folder_stands_for_the_manifests_in_it(tmp_path: Path) -> None:
    for name in ("b.yml", "a.json", "notes.txt"):
        (tmp_path / name).write_text(yaml.safe_dump(pod(name[0], "1")) if name != "notes.txt" else "a: [")
    (tmp_path / "a.json").write_text(msgspec.json.encode(pod("a", "1")).decode())
    (tmp_path / "deeper").mkdir()
    assert "import: read 2 objects" in simulated("--import", str(tmp_path)).stderr
    found = simulated("--import", str(tmp_path / "deeper"))
    assert (found.exit_code, "there is no .json, .yaml or .yml file" in found.stderr) == (2, True)


def test_where_no_object_has_a_date_it_is_said(tmp_path: Path) -> None:
    by_hand = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert (
        "2026-01-01T00:00:00Z, for there is no date among them" in simulated("--import", dump(tmp_path, by_hand)).stderr
    )
    assert f"{TAKEN}, the latest date among them" in simulated("--import", dump(tmp_path, node("a"))).stderr


@pytest.mark.parametrize("nodes", [(), ("--nodes", "2")])
def test_pods_do_not_wait_for_nodes_that_are_made_up(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    found = summary("--import", dump(tmp_path, pod("p", "1")), *nodes, "--for", "1m")
    assert (found["placed"], found["longestWaits"]) == (1, [])


def test_a_dump_may_come_from_standard_input(tmp_path: Path) -> None:
    text = Path(dump(tmp_path, node("a"), pod("p", "1"))).read_text()
    assert summary("--import", "-", stdin=text)["placed"] == 1


def test_lists_of_the_api_itself_tell_the_kind_of_their_items_once(tmp_path: Path) -> None:
    """`kubectl get --raw /api/v1/nodes`."""
    path = tmp_path / "raw.json"
    for obj in (node("a"), pod("p", "1", on="a")):
        kind, version = obj.pop("kind"), obj.pop("apiVersion")
        with path.open("ab") as file:
            file.write(msgspec.json.encode({"kind": f"{kind}List", "apiVersion": version, "items": [obj]}) + b"\n")
    found = simulated("--import", str(path))
    assert "import: loaded 1 Node, 1 Pod\n" in found.stderr
    assert "  placed             1" in found.stdout


def test_an_object_that_cannot_be_stored_has_its_line_in_any_of_several_lists(tmp_path: Path) -> None:
    path = tmp_path / "lists.yaml"
    broken = pod("p", "1")
    broken["spec"]["containers"] = []
    lists = [{"apiVersion": "v1", "items": [obj], "kind": "List"} for obj in (node("a"), broken)]
    path.write_text("".join(map(yaml.safe_dump, lists)))
    line = path.read_text().count("\n", 0, path.read_text().index("kind: Pod"))
    found = simulated("--import", str(path))
    assert f"{path}, line {line}: Pod default/p cannot be stored" in found.stderr
    path.write_bytes(b"".join(msgspec.json.encode(found) + b"\n" for found in lists))
    assert f"{path}, line 2: Pod default/p cannot be stored" in simulated("--import", str(path)).stderr


def test_amounts_of_nodes_may_be_numbers(tmp_path: Path) -> None:
    numbers = node("a")
    numbers["metadata"]["annotations"] = {"sim.fairlead.dev/allocatable": "computed"}
    numbers["status"] |= {"capacity": {"cpu": 4, "memory": "8Gi", "pods": 110}, "allocatable": None}
    assert summary("--import", dump(tmp_path, numbers, pod("p", "3", on="a")))["utilisation"]["cpu"]["mean"] == 0.75


def test_nodes_of_others_are_no_nodes(tmp_path: Path) -> None:
    """longhorn.io has Nodes, too, of the same names."""
    other = {
        "apiVersion": "longhorn.io/v1beta2",
        "kind": "Node",
        "metadata": {"name": "a", "namespace": "longhorn-system"},
    }
    other |= {"spec": {"disks": {}}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    found = summary("--import", dump(tmp_path, other, node("a"), pod("p", "3", on="a")))
    assert (found["nodes"], found["placed"]) == (1, 1)
    assert simulated("--import", dump(tmp_path, other)).exit_code == 0


def test_it_is_told_where_nodes_are_made_up(tmp_path: Path) -> None:
    text = "import: no Node is in the dump: 3 nodes of 4 cpu, 16Gi stand for its own"
    path = dump(tmp_path, pod("p", "1"))
    assert text in simulated("--import", path).stderr
    assert text not in simulated("--import", path, "--nodes", "3").stderr


def test_pods_stay_where_they_are_though_the_dump_has_no_nodes(tmp_path: Path) -> None:
    """As of `kubectl get all -A`; the nodes are as large as they have to be."""
    path = dump(tmp_path, pod("p", "3", on="ip-10-0-0-1"), pod("q", "5", on="ip-10-0-0-1"), pod("r", "1", on="b"))
    found = simulated("--import", path)
    assert "Nothing happens to 2 nodes, 3 pods: settled from the start" in found.stdout
    assert "no Node is in the dump: 2 nodes of 4 cpu, 16Gi, or what their pods request, stand for those" in found.stderr
    assert summary("--import", path)["utilisation"]["cpu"]["mean"] == 0.75  # 9 of 8 and 4


def test_nodes_that_stand_for_others_have_the_labels_that_pods_select(tmp_path: Path) -> None:
    there, coming = pod("there", "1", on="b"), pod("coming", "1")
    there["spec"]["nodeSelector"] = coming["spec"]["nodeSelector"] = {"pool": "gpu"}
    assert summary("--import", dump(tmp_path, there, pod("other", "1", on="a"), coming))["waiting"] == 0


@pytest.mark.parametrize("source", ["--import", "--nodes-from"])
def test_two_sayings_of_how_many_nodes_there_are_contradict_each_other(tmp_path: Path, source: str) -> None:
    found = simulated(source, dump(tmp_path, node("a")), "--nodes", "4")
    assert (found.exit_code, "leave out one of them" in found.stderr) == (2, True)


def test_nodes_that_are_gone_at_the_end_were_part_of_the_run(tmp_path: Path) -> None:
    """A node of an autoscaler goes as soon as it idles."""
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": {}}
    idle = node("a")
    idle["metadata"]["labels"] = {"karpenter.sh/nodepool": "general"}
    path = dump(tmp_path, idle, pool)
    assert simulated("--import", path, "--autoscale", "--for", "2h").stdout.startswith("Replayed 2h of 1 node, ")


def test_dates_that_nobody_can_mean_do_not_move_the_clock(tmp_path: Path) -> None:
    far, broken = pod("p", "1", on="a"), pod("q", "1", on="a")
    far["metadata"]["creationTimestamp"] = "9999-12-31T23:59:59Z"
    certificate = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "c"}}
    renewed = certificate | {"status": {"renewalTime": "2031-08-30T00:00:00Z"}}
    assert summary("--import", dump(tmp_path, node("a"), pod("p", "1", on="a"), renewed))["began"] == TAKEN
    broken["status"]["startTime"] = "2031-02-30T00:00:00+99:99"
    assert summary("--import", dump(tmp_path, node("a"), far))["began"] == TAKEN
    found = simulated("--import", dump(tmp_path, node("a"), broken))
    assert (found.exit_code, "q" in found.stderr) == (2, True)


def test_node_groups_that_are_not_asked_for_are_told_of(tmp_path: Path) -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": {}}
    path = dump(tmp_path, node("a"), pod("p", "3", on="a"), pool)
    found = CliRunner().invoke(main, ["simulate", "--import", path, "--for", "1m"])
    assert "import: the dump has node groups of an autoscaler: with --autoscale they grow" in found.stderr


def test_with_an_autoscaler_a_run_ends_after_a_day(tmp_path: Path) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 3},
    }
    path = dump(tmp_path, node("a"), pod("p", "3", on="a"), autoscaler)
    assert summary("--import", path)["seconds"] == pytest.approx(86400, abs=1)
    assert summary("--import", path, "--for", "1h")["seconds"] == pytest.approx(3600, abs=1)
    text = "With HorizontalPodAutoscalers a cluster never comes to rest: stopping after 24h. Say how long with --for."
    assert text in simulated("--import", path).stderr


def test_two_objects_of_one_uid_are_refused(tmp_path: Path) -> None:
    """Their controllers would take each other's pods without end."""
    twin = pod("b", "1", on="a")
    twin["metadata"]["uid"] = "a"
    result = simulated("--import", dump(tmp_path, node("a"), twin))
    assert result.exit_code == 2
    assert "Pod default/b has the uid of Node a (a): no two objects have the same" in result.output
