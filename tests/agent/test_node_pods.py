"""What the agent asks of the API server about its pods, in the name of its node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.agent.pods.node_pods import NodePods
from fairlead.agent.static_pods.static_pods import StaticPods
from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import Conflict
from fairlead.api.pods import Pod
from fairlead.api.users import node_user
from fairlead.api.verbs import DeleteOptions
from fairlead.client.informer import Informer
from fairlead.compose import Settings, cluster
from fairlead.runtime.loops import run

NODE = "node-a"


def test_a_pod_that_has_just_gone_is_waited_for_and_not_complained_of(tmp_path: Path) -> None:
    """The authorizer of nodes knows no pod that is gone, and says Forbidden, as that of kube-apiserver does."""

    async def main() -> None:
        async with (
            asyncio.timeout(30),
            cluster(Settings(port=0, components=frozenset(("api", "controllers")))) as running,
        ):
            await running.api.create(NODES, {"metadata": {"name": NODE}})
            spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]}
            created = await running.api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
            of_node = running.registry.as_user(node_user(NODE))
            statics = StaticPods(None, tmp_path, NODE, lambda manifest: manifest, 1.0)
            pods, pod = NodePods(of_node, Informer(of_node, PODS, Pod), statics), created.view(Pod)
            assert (await pods.manifest(pod))["metadata"]["uid"] == pod.metadata.uid
            await running.api.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=0))
            with pytest.raises(Conflict):
                await pods.manifest(pod)

    run(main())
