"""Every kubectl from 1.30 to 1.37 works: one look with those that the other tests do not run with (issue 16)."""

from __future__ import annotations

import pytest

from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import OTHER_MINORS


@pytest.mark.slow
@pytest.mark.parametrize("minor", OTHER_MINORS)
def test_a_deployment_is_made_changed_shown_and_removed(terminal: Terminal, minor: str) -> None:
    assert f"Client Version: v{minor}." in terminal.output("kubectl version")
    manifest = terminal.output("kubectl create deployment web --image=nginx:1.26 --dry-run=client -o yaml")
    terminal.prints("kubectl apply -f -", "deployment.apps/web created", manifest)
    terminal.prints("kubectl apply --server-side -f -", "deployment.apps/web serverside-applied", manifest)
    terminal.prints("kubectl scale deployment web --replicas=2", "deployment.apps/web scaled")
    terminal.output("kubectl rollout status deployment/web --timeout=30s")
    terminal.prints(
        "kubectl get deployment web",
        """
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE
        web    2/2     2            2           …
        """,
    )
    terminal.prints("kubectl set image deployment/web nginx=nginx:1.27", "deployment.apps/web image updated")
    terminal.output("kubectl wait deployment/web --for=condition=Available --timeout=30s")
    assert "Image:         nginx:1.27" in terminal.output("kubectl describe deployment web")
    assert "replicas" in terminal.output("kubectl explain deployment.spec")
    assert terminal.output("kubectl auth can-i delete pods") == "yes"
    terminal.output("kubectl delete deployment web --cascade=foreground --timeout=30s")
    assert terminal.output("kubectl get pods") == ""


def test_kubectl_proxy_leads_to_the_server(terminal: Terminal, namespace: str) -> None:
    """Without credentials of one's own, and for the API alone."""
    script = """
      kubectl proxy --port=0 > proxy.log & proxy=$!
      trap 'kill $proxy' EXIT
      until grep -q 'Starting to serve on' proxy.log; do kill -0 $proxy || exit 1; done
      at=$(sed 's/.* on //' proxy.log)
      curl -sf http://$at/version | grep gitVersion
      curl -sf http://$at/api/v1/namespaces/NAMESPACE | grep '"name"'
      curl -sf -X POST -H 'content-type: application/json' http://$at/api/v1/namespaces/NAMESPACE/configmaps \\
        -d '{"metadata": {"name": "by-proxy"}}' | grep '"name"'
      curl -s -o refused -w '%{http_code}' http://$at/api/v1/namespaces/NAMESPACE/pods/x/exec
    """
    done = terminal.run(f"cd {terminal.home}\n{script.replace('NAMESPACE', namespace)}")
    assert done.out.splitlines()[-1] == "403", done  # kubectl's own filter
    assert '"gitVersion": "v1.36' in done.out
    assert '"by-proxy"' in done.out
    assert terminal.output("kubectl get configmap by-proxy -o name") == "configmap/by-proxy"
