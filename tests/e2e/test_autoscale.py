"""`kubectl autoscale` and `kubectl describe hpa` over what simulated pods use (S0-66)."""

from __future__ import annotations

import json

import pytest

from tests.e2e.helpers.manifests import container
from tests.e2e.helpers.terminal import Terminal


def _deployment() -> str:
    labels = {"app": "web"}
    annotations = {"sim.fairlead.dev/usage-cpu": "90m"}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [container(requests={"cpu": "100m"})]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


@pytest.mark.slow
def test_a_deployment_is_scaled_and_describe_says_why(terminal: Terminal, namespace: str) -> None:
    terminal.output("kubectl create -f -", _deployment())
    terminal.output("kubectl autoscale deployment web --cpu=50% --min=1 --max=2")
    terminal.output("kubectl wait --for=jsonpath='{.status.desiredReplicas}'=2 hpa/web --timeout=100s")
    described = terminal.output("kubectl describe hpa web")
    assert "SuccessfulRescale" in described
    assert "cpu resource utilization (percentage of request) above target" in described
    assert "SucceededRescale" in described or "ReadyForNewScale" in described
