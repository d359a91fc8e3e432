"""Two zones at 40:60 and a pair nested in one of them, borrowing and giving back, as a person sees it (SC-59)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.cli.clusters import until
from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import EXAMPLES, Terminal
from tests.processes import Up

FAIRLEAD = f"{sys.executable} -m fairlead"
READY = "kubectl wait deployment/work -n {} --for=jsonpath='{{.status.readyReplicas}}'={} --timeout=40s"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    nodes = [node("node-1", cpu="5"), node("node-2", cpu="5")]
    with cluster_of(tmp_path_factory.mktemp("cluster"), *nodes, options=("--arbitrator",)) as up:
        yield up


@pytest.fixture
def sharing(cluster: Up, tmp_path: Path, kubectl_of_minor: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path / "home", kubectl_of_minor, variables={"KUBECONFIG": str(cluster.kubeconfig)})
    terminal.output("kubectl wait --for=create crd/consumers.kube-arbitrator.incubator.k8s.io --timeout=20s")
    terminal.output("kubectl wait --for=condition=Established crd --all --timeout=20s")
    terminal.run("kubectl apply -f sharing.yaml")  # the arbitrator may be faster with a Consumer than a busy kubectl
    terminal.output("kubectl apply -f sharing.yaml")
    for namespace in ("app", "hadoop", "spark"):
        terminal.output(f"kubectl create -n {namespace} -f one-cpu.yaml")
        terminal.output(f"kubectl scale deployment/work -n {namespace} --replicas=0")
    yield terminal
    terminal.output("kubectl delete namespace app hadoop spark --timeout=60s")


@pytest.mark.slow
def test_idle_capacity_is_lent_and_taken_back(sharing: Terminal) -> None:
    """S2-02 to S2-07, S2-38, S2-39, S2-45."""
    sharing.output("kubectl scale deployment/work -n hadoop --replicas=12")
    sharing.output(READY.format("hadoop", 10))  # all there is

    _grace(sharing, "hadoop", "10m")
    sharing.output("kubectl scale deployment/work -n spark --replicas=12")
    sharing.output("kubectl wait allocation/defaults -n hadoop --for=condition=Overused --timeout=20s")

    def is_explained() -> bool:
        """A proposal may give way to the next one between two questions."""
        beneficiary = _proposed(sharing, "hadoop", "beneficiaries[0]").removeprefix("spark/")
        victim = _proposed(sharing, "hadoop", "victims[0].name")
        return (
            re.search("for this pod.*, hadoop gives up", sharing.run(f"{FAIRLEAD} why {beneficiary} -n spark").out)
            is not None
            and "it will be evicted at" in sharing.run(f"{FAIRLEAD} why {victim} -n hadoop").out
        )

    assert until(is_explained, 30)
    sharing.output("kubectl scale deployment/work -n spark --replicas=0")
    sharing.output("kubectl wait allocation/defaults -n hadoop --for=condition=Overused=false --timeout=20s")
    assert _proposed(sharing, "hadoop", "deadline") == ""

    _grace(sharing, "hadoop", "2s")
    sharing.output("kubectl scale deployment/work -n spark --replicas=12")
    sharing.output("kubectl scale deployment/work -n app --replicas=12")
    for namespace, cpus in (("app", 4), ("hadoop", 2), ("spark", 4)):
        sharing.output(READY.format(namespace, cpus))

    told = sharing.output(f"{FAIRLEAD} why {_one_waiting(sharing, 'hadoop')} -n hadoop")
    assert "waits for the share of its namespace" in told
    assert "namespace hadoop uses 2 of the 2 requests.cpu that it may use now, and the pod needs 1" in told
    gone = sharing.output(
        "kubectl get events -n hadoop --field-selector reason=Reclaimed -o jsonpath='{.items[0].involvedObject.name}'"
    )
    assert f"hadoop/{gone} is gone, evicted for " in sharing.output(f"{FAIRLEAD} why {gone} -n hadoop")
    shares = {line.split()[0]: line for line in sharing.output(f"{FAIRLEAD} shares").splitlines()}
    assert shares["app"].split()[1:6] == ["4", "-", "4", "4", "4"]
    assert "cpu is used up" in shares["spark"]

    sharing.output("kubectl scale deployment/work -n spark --replicas=0")
    sharing.output(READY.format("hadoop", 6))  # its neighbour's part is idle: lent again


def test_an_owner_gives_back_by_its_own_choice(sharing: Terminal, cluster: Up) -> None:
    """S2-36, S2-46: the example controller scales down what is worth least, and nobody is evicted."""
    _grace(sharing, "hadoop", "10m")
    precious = sharing.output("cat one-cpu.yaml").replace("work", "precious")
    sharing.output("kubectl create -n hadoop -f -", precious)
    sharing.output("kubectl annotate deployment/precious -n hadoop example.dev/worth=9")
    sharing.output("kubectl scale deployment/work -n hadoop --replicas=9")
    sharing.output(READY.format("hadoop", 9))
    controller = [
        sys.executable,
        "tenant/give_back.py",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "--namespace",
        "hadoop",
    ]
    with subprocess.Popen(controller, cwd=EXAMPLES, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "looking after hadoop\n"
        sharing.output("kubectl scale deployment/work -n spark --replicas=3")
        sharing.output(READY.format("spark", 3))
        owner.terminate()
        told = [line.split(maxsplit=5) for line in owner.stdout.read().splitlines()]
    assert sum(int(given) for _, given, *_ in told) == 3
    assert {(name, beneficiaries[: len("spark/work-")]) for name, *_, beneficiaries in told} == {
        ("work:", "spark/work-")
    }
    assert sharing.output("kubectl get deployments -n hadoop -o jsonpath='{.items[*].spec.replicas}'") == "1 6"
    assert sharing.output("kubectl get events -n hadoop --field-selector reason=Reclaimed -o name") == ""


def _one_waiting(terminal: Terminal, namespace: str) -> str:
    listed = "kubectl get pods -n {} --field-selector spec.nodeName=,status.phase=Pending -o yaml"
    items = yaml.safe_load(terminal.output(listed.format(namespace)))["items"]
    names: list[str] = sorted(one["metadata"]["name"] for one in items)
    return names[0]


def _proposed(terminal: Terminal, namespace: str, what: str) -> str:
    return terminal.output(f"kubectl get allocation defaults -n {namespace} -o jsonpath='{{.status.proposal.{what}}}'")


def _grace(terminal: Terminal, namespace: str, grace: str) -> None:
    patch = f'{{"spec":{{"evictionGrace":"{grace}"}}}}'
    terminal.output(f"kubectl patch consumer defaults -n {namespace} --type=merge -p '{patch}'")
