"""deploy/arbitrator with the real kubectl and openssl; and a scheduler that asks the arbitrator over TLS, as configured
there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up, component, free_port

DEPLOY = Path(__file__).parents[2] / "deploy" / "arbitrator"
REFUSED = "kubectl get pod {} -o jsonpath='{{.status.conditions[?(@.type==\"PodScheduled\")].message}}'"

pytestmark = pytest.mark.skipif(not (which("openssl") and which("curl")), reason="needs openssl and curl")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    options = ("--components", "controllers,nodes")
    with cluster_of(tmp_path_factory.mktemp("cluster"), node("node-1", cpu="8"), options=options) as up:
        yield up


@pytest.mark.slow
def test_everything_can_be_applied_and_schedulers_are_told(
    terminal: Terminal, cluster: Up, tmp_path: Path, namespace: str
) -> None:
    """S2-44, S2-45."""
    terminal.output("kubectl wait --for=condition=Ready node/node-1 --timeout=20s")
    pki = tmp_path / "pki"
    install, remove = readme()
    typed = [line for line in install if line.startswith(("kubectl apply", "./certificates"))]
    assert len(typed) == 3
    for line in (typed[0], "kubectl apply -f gate.yaml", *typed[1:]):
        applied = terminal.run(f"cd {DEPLOY} && {line.replace('~/fairlead-pki', str(pki))}")
        warnings = [one for one in applied.err.splitlines() if not one.startswith("Warning: Fairlead stores this ")]
        assert (applied.code, warnings) == (0, []), applied
    for kind in (
        "validatingwebhookconfiguration/fairlead-arbitrator",
        "mutatingwebhookconfiguration/fairlead-arbitrator-gate",
    ):
        bundle = terminal.output(f"kubectl get {kind} -o jsonpath='{{.webhooks[0].clientConfig.caBundle}}' | base64 -d")
        assert bundle == (pki / "ca.crt").read_text().strip()

    port = free_port()
    config = (DEPLOY / "scheduler-extender.yaml").read_text().replace("CLUSTER-IP:443", f"127.0.0.1:{port}")
    file = tmp_path / "scheduler.yaml"
    file.write_text(config.replace("/etc/kubernetes/fairlead", str(pki)))
    listen = ("--listen", f"0.0.0.0:{port}", "--client-ca-file", str(pki / "ca.crt"))
    tls = ("--tls-cert-file", str(pki / "server.crt"), "--tls-private-key-file", str(pki / "server.key"))
    terminal.output(reached_at(port))
    with (
        component(cluster, "arbitrator", *listen, *tls),
        component(cluster, "scheduler", "--config", str(file), "--port", "0"),
    ):
        terminal.output("kubectl wait --for=create consumer/defaults --timeout=20s")
        terminal.output(f"kubectl apply -f {DEPLOY / 'policy.yaml'}")
        negative = '{"spec":{"hard":{"requests.cpu":-2}}}'
        wrong = terminal.run(f"kubectl patch consumer defaults --type=merge -v=8 -p '{negative}'")
        assert 'admission webhook \\"review.kube-arbitrator.incubator.k8s.io\\" denied the request: ' in wrong.err
        terminal.output('kubectl patch consumer defaults --type=merge -p \'{"spec":{"hard":{"requests.cpu":2}}}\'')
        terminal.output(pods("one", "two"))
        terminal.output("kubectl wait --for=condition=Ready pod/one pod/two --timeout=30s")
        terminal.output(pods("three"))
        refusal = f"Allocation {namespace}: not enough requests.cpu is granted to this namespace now."
        why = f"0/1 nodes are available: 1 {refusal}"
        terminal.comes_to(f"{REFUSED.format('three')} | cut -c -{len(why)}", why)
        terminal.output('kubectl patch consumer defaults --type=merge -p \'{"spec":{"hard":{"requests.cpu":3}}}\'')
        terminal.output("kubectl wait --for=condition=Ready pod/three --timeout=20s")
        curl = f"curl -s --resolve fairlead-arbitrator.kube-system.svc:{port}:127.0.0.1 --cacert {pki}/ca.crt"
        url = f"https://fairlead-arbitrator.kube-system.svc:{port}/metrics"
        assert "certificate" in terminal.output(f"{curl} {url}")
        known = f"--cert {pki}/prometheus.crt --key {pki}/prometheus.key"
        assert f'used{{namespace="{namespace}",resource="cpu"}}' in terminal.output(f"{curl} {known} {url}")
    for line in remove:
        terminal.output(f"cd {DEPLOY} && {line}")
    assert "arbitrator" not in terminal.output("kubectl get crds -o name")


def reached_at(port: int) -> str:
    """The command that leads the webhook to an arbitrator beside the cluster: simulated pods answer nobody."""
    service = "service fairlead-arbitrator -n kube-system"
    external = f"kubectl create {service.replace(' ', ' externalname ', 1)} --external-name localhost"
    patch = f'[{{"op":"add","path":"/webhooks/0/clientConfig/service/port","value":{port}}}]'
    webhook = f"kubectl patch validatingwebhookconfiguration fairlead-arbitrator --type=json -p '{patch}'"
    return f"kubectl delete {service} && {external} && {webhook}"


def readme() -> tuple[list[str], list[str]]:
    """What it says to type, to install and to remove everything."""
    install, remove = (DEPLOY / "README.md").read_text().split("```")[1::2]
    return install.strip().splitlines(), remove.strip().splitlines()


def pods(*names: str) -> str:
    """The command that makes pods of one CPU."""
    spec = '{"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"1"}}}]}}'
    return " && ".join(f"kubectl run {name} --image=x --overrides='{spec}'" for name in names)
