"""What a container may use of the CPU, with quota, without, and on a node that enforces none (SC-16)."""

from __future__ import annotations

import pytest

from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.usage import kubelet_config, using

NODES = [node("with-quota"), node("without-quota", annotations=kubelet_config({"cpuCFSQuota": False}))]


@pytest.mark.slow
def test_a_quota_throttles_and_kills_nobody(terminal: Terminal) -> None:
    """SC-16, S0-60, S0-61, S0-65."""
    limited = container(limits={"cpu": "200m"})
    manifests = (
        pod("limited", limited, nodeName="with-quota"),
        pod("unlimited", container(), nodeName="with-quota"),
        pod("unenforced", limited, nodeName="without-quota"),
    )
    terminal.output("kubectl create -f -", "\n---\n".join(using(manifest, cpu="2") for manifest in manifests))
    terminal.comes_to(
        "kubectl top pods --no-headers", "limited 200m …\nunenforced 2000m …\nunlimited 2000m …", seconds=60
    )
    throttled = "kubectl get --raw /api/v1/nodes/{}/proxy/metrics/cadvisor | grep ^container_cpu_cfs_throttled_periods"
    terminal.prints(throttled.format("with-quota"), '…pod="limited"…')
    assert terminal.run(throttled.format("without-quota")).out == ""
    restarts = "jsonpath='{.items[*].status.containerStatuses[0].restartCount}'"
    terminal.prints(f"kubectl get pods -o {restarts}", "0 0 0")
