"""A cluster for tests without pytest: any client works, what a test says needs none, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes_asyncio
import pytest

from fairlead.runtime.loops import Stalled
from fairlead.testing import ApiError, ClientMissing, Cluster, ClusterStopped, KubectlFailed, cluster

CONTAINER = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
TOYS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: toys, singular: toy, kind: Toy, shortNames: [ty]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Toy
metadata: {name: ball}
spec: {color: red}
"""


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [CONTAINER], **spec},
    }


@pytest.fixture(scope="module")
def c() -> Iterator[Cluster]:
    with cluster(nodes=2, node_cpu="2") as found:
        yield found


def test_a_client_library_finds_nodes_and_runs_pods(c: Cluster) -> None:
    core = kubernetes.client.CoreV1Api(c.client())
    assert {node.metadata.name for node in core.list_node().items} == {"node-1", "node-2"}
    core.create_namespaced_pod("default", pod("by-client"))
    ready = c.wait_for("pod/by-client", "Ready")
    assert ready["spec"]["nodeName"] in ("node-1", "node-2")
    core.delete_namespaced_pod("by-client", "default", grace_period_seconds=0)
    c.wait_for("pod/by-client", "delete")


def test_an_async_client_asks_from_a_loop_of_its_own(c: Cluster) -> None:
    async def nodes() -> int:
        client = await kubernetes_asyncio.config.new_client_from_config(str(c.kubeconfig))
        async with client:
            return len((await kubernetes_asyncio.client.CoreV1Api(client).list_node()).items)

    assert asyncio.run(nodes()) == 2


def test_kubectl_is_the_real_one(
    c: Cluster, kubectl_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kubectl").symlink_to(kubectl_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "node-1" in c.kubectl("get", "nodes")
    made = c.kubectl("apply", "-f", "-", stdin="{apiVersion: v1, kind: ConfigMap, metadata: {name: by-kubectl}}")
    assert made == "configmap/by-kubectl created\n"
    with pytest.raises(KubectlFailed, match=r'kubectl get pod nobody: .*pods "nobody" not found'):
        c.kubectl("get", "pod", "nobody")


def test_without_kubectl_it_is_said_so(c: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClientMissing, match="a kubectl on PATH"):
        c.kubectl("get", "nodes")


def test_without_a_client_library_the_error_says_what_to_do(c: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kubernetes", None)
    with pytest.raises(ClientMissing, match="pip install kubernetes"):
        c.client()


def test_objects_are_applied_read_changed_and_removed_in_kubectls_words(c: Cluster) -> None:
    (made,) = c.apply(pod("words"))
    assert c.get("po/words")["metadata"]["uid"] == made["metadata"]["uid"]
    c.patch("pods/words", {"metadata": {"labels": {"tier": "front"}}})
    assert [each["metadata"]["name"] for each in c.list("Pod", labels="tier=front")] == ["words"]
    assert c.list("pods", namespace="kube-system") == []
    c.delete("pod/words", grace_period_seconds=0)
    assert c.wait_for("pod/words", "delete") == {}


def test_a_definition_and_its_objects_are_applied_together(c: Cluster) -> None:
    definition, ball = c.apply(TOYS)
    assert (definition["kind"], ball["spec"]) == ("CustomResourceDefinition", {"color": "red"})
    for kind in ("toys", "toy", "ty", "Toy", "toys.example.com"):
        assert c.get(f"{kind}/ball")["metadata"]["uid"] == ball["metadata"]["uid"]


def test_a_file_of_manifests_is_applied(c: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: map-}\n")
    names = {c.apply(file)[0]["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("map-") for name in names)
    with pytest.raises(FileNotFoundError, match=r"there is no file nowhere\.yaml"):
        c.apply("nowhere.yaml")


def test_a_refusal_is_the_servers(c: Cluster) -> None:
    with pytest.raises(ApiError, match="quantities must match") as refused:
        c.apply(pod("bad", containers=[CONTAINER | {"resources": {"requests": {"cpu": "1x"}}}]))
    assert refused.value.code == 500
    with pytest.raises(ApiError, match=r"\.spec\.nodName: field not declared in schema"):
        c.apply(pod("bad", nodName="typo"))
    with pytest.raises(ApiError, match='the server doesn\'t have a resource type "nonsense"'):
        c.get("nonsense/x")
    with pytest.raises(ApiError, match='no matches for kind "Nonsense" in version "v1"'):
        c.apply({"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "x"}})
    with pytest.raises(ApiError, match="name must be provided"):
        c.apply({"apiVersion": "v1", "kind": "ConfigMap"})
    with pytest.raises(ValueError, match="write kind/name"):
        c.get("pods")


def test_who_waits_in_vain_is_told_how_things_are(c: Cluster) -> None:
    c.apply(pod("big", containers=[CONTAINER | {"resources": {"requests": {"cpu": "3"}}}]))
    with pytest.raises(TimeoutError) as told:
        c.wait_for("pod/big", "Ready", timeout=0.5)
    text = str(told.value)
    assert text.startswith("Pod big in default: 'Ready' did not come to be within 0.5 s")
    assert "phase Pending" in text
    assert "PodScheduled=False (Unschedulable: 0/2 nodes are available: 2 Insufficient cpu." in text
    assert "event FailedScheduling: " in text
    c.delete("pod/big")
    with pytest.raises(TimeoutError, match="there is no such object"):
        c.wait_for("pod/nobody", lambda pod: True, timeout=0.1)


def test_conditions_are_types_with_a_status_or_functions(c: Cluster) -> None:
    c.apply(pod("conditions"))
    c.wait_for("pod/conditions", "create")
    c.wait_for("pod/conditions", lambda pod: pod["status"]["phase"] == "Running")
    c.wait_for("node/node-1", "MemoryPressure=False")
    c.delete("pod/conditions", grace_period_seconds=0)


def test_conditions_are_spelt_as_kubectl_takes_them(c: Cluster) -> None:
    c.apply(pod("spelt"))
    assert c.wait_for("pod/spelt", "condition=ready", timeout="10s") == c.wait_for("pod/spelt", "Ready=true")
    with pytest.raises(ValueError, match="is no duration"):
        c.wait_for("pod/spelt", "Ready", timeout="soon")


def test_a_function_may_look_for_what_is_not_there_yet(c: Cluster) -> None:
    c.apply(pod("slow"))
    ready = c.wait_for("pod/slow", lambda pod: pod["status"]["containerStatuses"][0]["ready"])
    assert ready["metadata"]["name"] == "slow"
    with pytest.raises(TimeoutError, match=r"(?s)it raised KeyError\('ready'\).*phase Running"):
        c.wait_for("pod/slow", lambda pod: pod["status"]["ready"], timeout=0.2)


def test_of_a_kind_without_conditions_the_status_is_told(c: Cluster) -> None:
    c.apply(TOYS)
    c.patch("toy/ball", {"status": {"phase": "Rolling", "made": {"done": True}}})
    with pytest.raises(TimeoutError, match=r'status \{"phase": "Rolling", "made": \{"done": true\}\}'):
        c.wait_for("toy/ball", lambda ball: ball["status"]["phase"] == "Resting", timeout=0.2)


def test_a_function_that_is_waited_for_may_ask_the_cluster(c: Cluster) -> None:
    c.apply(pod("asking"))
    c.wait_for("pod/asking", lambda pod: c.list("nodes") and c.get("pod/asking")["status"]["phase"] == "Running")

    async def never(pod: dict[str, Any]) -> bool:
        return False

    with pytest.raises(TypeError, match="never is a coroutine function"):
        c.wait_for("pod/asking", never)


def test_clients_that_look_for_a_cluster_themselves_find_it(c: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    with c.as_default():
        kubernetes.config.load_kube_config()
        assert {node.metadata.name for node in kubernetes.client.CoreV1Api().list_node().items} == {"node-1", "node-2"}
        command = [sys.executable, "-c", "import os; print(os.environ['KUBECONFIG'])"]
        assert subprocess.check_output(command, text=True).strip() == str(c.kubeconfig)
    assert os.environ["KUBECONFIG"] == "/elsewhere"
    with pytest.raises(kubernetes.config.ConfigException):
        kubernetes.config.load_kube_config()


@pytest.mark.filterwarnings("error")
def test_a_cluster_that_is_gone_says_so() -> None:
    with cluster(nodes=0) as gone:
        pass
    for ask in (gone.describe, gone.client, lambda: gone.list("pods"), lambda: gone.kubectl("get", "pods")):
        with pytest.raises(ClusterStopped, match="has been stopped"):
            ask()
    gc.collect()


def test_a_cluster_may_lack_parts_and_have_others(c: Cluster) -> None:
    with pytest.raises(ApiError, match="have a resource type"):
        c.list("consumers")
    with cluster(nodes=1, components=["controllers", "nodes"], arbitrator=True) as found:
        found.apply(pod("waits"))
        assert "nodeName" not in found.get("pod/waits")["spec"]
        found.list("consumers")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"node": 3}, "unknown option node; known are nodes, "),
        ({"node_cpu": "much"}, "cpu of a node: 'much' is no quantity"),
        ({"components": ["kubelet"]}, "components: unknown kubelet; known are api, controllers, scheduler, nodes"),
        ({"overused_namespaces": ["refuse"]}, "overused_namespaces needs arbitrator=True"),
        ({"nodes": 2, "imported": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]}, "leave out one"),
        ({"nodes": "nodes.yaml", "node_cpu": "1"}, "manifests say it themselves"),
        ({"nodes": "nowhere.yaml"}, "there is no file nowhere.yaml"),
        ({"nodes": -1}, "there cannot be fewer than none"),
        ({"nodes": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}, "no Node among these objects"),
        ({"enable_admission_plugins": ["Nonsense"]}, '"Nonsense" is unknown'),
        ({"scheduler_config": {"kind": "Nonsense"}}, "Nonsense"),
        ({"node_config": {"kind": "Nonsense"}}, "node_config: "),
        ({"node_config": "kubelet.yaml"}, "node_config is a mapping, .* not 'kubelet.yaml'"),
        ({"scheduler_config": "scheduler.yaml"}, "scheduler_config is a mapping"),
        ({"imported": [{"metadata": {}}]}, "every document needs a kind"),
        ({"nodes": 2.5}, "objects are a mapping, several, YAML, or the name of a file, and this is a float"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises((ValueError, TypeError, OSError), match=refusal):
        cluster(**options)


def test_what_is_left_out_of_a_dump_is_told() -> None:
    toy = {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "ball"}}
    told = r"imported: skipped 1 Toy \(example.com/v1\): not served here"
    with pytest.warns(UserWarning, match=told), cluster(nodes=0, imported=toy):
        pass


def test_a_setting_of_nodes_that_no_kubelet_knows_is_told() -> None:
    with pytest.warns(UserWarning, match='node_config: .*unknown field "maxPodz"'), cluster(node_config={"maxPodz": 3}):
        pass


def test_sizes_of_nodes_may_be_numbers() -> None:
    with cluster(nodes=1, node_cpu=2, node_memory=2**30) as found:
        capacity = found.get("node/node-1")["status"]["capacity"]
        assert (capacity["cpu"], capacity["memory"]) == ("2", "1073741824")


def test_what_keeps_a_cluster_from_starting_is_raised() -> None:
    broken = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Capitals"}, "spec": {"containers": [CONTAINER]}}
    with pytest.raises(ValueError, match="Capitals"), cluster(imported=broken):
        raise AssertionError("it has started")


def test_a_part_that_fails_is_told_when_the_cluster_ends() -> None:
    with pytest.raises(Stalled, match="of a part"), cluster(nodes=0) as found:
        running = found._background.running
        running.failure.get_loop().call_soon_threadsafe(running.failure.set_exception, Stalled("of a part"))
        assert found.list("nodes") == []


def test_clusters_after_one_another_leave_nothing_behind() -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len([*Path("/proc/self/fd").iterdir()])

    def once() -> None:
        with cluster(nodes=1) as found:
            found.apply(pod("web"))
            found.wait_for("pod/web", "Ready")
            kubernetes.client.CoreV1Api(found.client()).list_node()
            assert found.kubeconfig.exists()
        assert not found.kubeconfig.exists()

    once()
    before = held()
    for _ in range(5):
        once()
    threads, files = held()
    assert threads <= before[0]
    assert files <= before[1]


def test_two_clusters_at_once_know_nothing_of_each_other(c: Cluster) -> None:
    with cluster(nodes=1) as other:
        other.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "only-here"}})
        assert other.address != c.address
        assert "only-here" not in {each["metadata"]["name"] for each in c.list("configmaps")}
