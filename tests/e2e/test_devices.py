"""Devices by claims, with kubectl: docs/dynamic-resources.md."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal

EXAMPLE = Path(__file__).parents[2] / "examples" / "devices.yaml"
STATES = "kubectl get pods --no-headers | awk '{print $1, $3}' | sort"


def test_pods_get_devices_wait_for_them_and_give_them_back(tmp_path: Path, kubectl_of_minor: Path) -> None:
    with cluster_of(tmp_path, *(node(f"node-{number}") for number in (1, 2, 3))) as up:
        terminal = Terminal(tmp_path / "home", kubectl_of_minor, variables={"KUBECONFIG": str(up.kubeconfig)})
        terminal.output(f"kubectl apply -f {EXAMPLE}")
        terminal.comes_to(STATES, "train Running")
        terminal.prints("kubectl get pod train -o jsonpath='{.spec.nodeName}'", "node-2")
        terminal.output("kubectl apply -f -", EXAMPLE.read_text().replace("name: train", "name: train-2"))
        helpless = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        terminal.comes_to(
            "kubectl get pod train-2 -o jsonpath='{.status.conditions[0].message}'",
            f"0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, {helpless}",
        )
        terminal.output("kubectl delete pod train")
        terminal.comes_to(STATES, "train-2 Running")
        terminal.comes_to("kubectl get resourceclaims --no-headers | awk '{print $2}'", "allocated,reserved")
        limits = '{"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"example.com/gpu":"2"}}}]}}'
        terminal.output(f"kubectl run both --image=i --overrides='{limits}'")
        terminal.comes_to(STATES, "both Running\ntrain-2 Running")
        terminal.prints("kubectl get pod both -o jsonpath='{.spec.nodeName}'", "node-1")
