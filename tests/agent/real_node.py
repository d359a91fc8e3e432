"""A cluster with one node that has a kubelet: the whole API server over TLS, and the kubelet's API over processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.agent.kubelet_api.rules import ServingRules
from fairlead.agent.kubelet_api.serving import serving_kubelet
from fairlead.api.builtin import NODES, PODS, SERVICE_ACCOUNTS
from fairlead.api.objects import Obj
from fairlead.api.users import User, node_user
from fairlead.compose import Cluster, Settings, cluster
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.authority import Authority
from fairlead.runtime.http.listener import LOOPBACK_ADDRESS, bind
from tests.agent.local_pods import LocalPods

NODE = "real"
#: What every command of a client has to end in.
SECONDS = 60.0
_USUAL_RULES = ServingRules.of(KubeletConfiguration())


@dataclass(frozen=True, slots=True)
class Done:
    """A program that has ended."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class RealNode:
    cluster: Cluster
    pods: LocalPods
    kubelet_port: int
    folder: Path
    _running: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        found = self.cluster.kubeconfig
        assert found is not None
        return found

    @property
    def authority(self) -> Authority:
        found = self.cluster.authority
        assert found is not None
        return found

    async def start(self, name: str, *containers: Obj, log_bytes: int = 10 << 20) -> Obj:
        """A pod whose containers run on the node, by its name."""
        spec = {"nodeName": NODE, "containers": [{"image": "i"} | container for container in containers]}
        made = await self.cluster.api.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        pod = await self.pods.run(made.obj(), log_bytes=log_bytes)
        status = {"status": pod["status"]}
        await self.cluster.api.patch(PODS, name, "default", status, subresource="status")
        return pod

    async def run(self, *command: str | Path, stdin: bytes | None = b"", check: bool = True, **env: str) -> Done:
        """Run a client to its end."""
        process = await self.begin(*command, **env)
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(stdin)
        done = Done(process.returncode or 0, out.decode(), err.decode())
        assert done.code == 0 or not check, done
        return done

    async def begin(self, *command: str | Path, **env: str) -> asyncio.subprocess.Process:
        """Start a client; whatever still runs at the end is ended."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), **env},
            limit=1 << 24,
        )
        self._running.append(process)
        return process

    async def stop(self) -> None:
        for process in self._running:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await self.pods.stop()


@asynccontextmanager
async def real_node(folder: Path, rules: ServingRules = _USUAL_RULES, **settings: Any) -> AsyncIterator[RealNode]:
    wanted = Settings(data_dir=folder / "data", port=0, components=frozenset({"api"}), **settings)
    async with cluster(wanted) as running:
        assert running.authority is not None
        running.server.serve_nodes()
        await running.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        pods = LocalPods(folder / "logs", NODE)
        sock = bind(0)
        port = sock.getsockname()[1]
        await running.api.create(NODES, _node(port))
        identity = running.authority.certify_server(User(f"system:node:{NODE}", ("system:nodes",)), [LOOPBACK_ADDRESS])
        as_node = running.registry.as_user(node_user(NODE))
        ca = running.authority.certificate_pem
        node = RealNode(running, pods, port, folder)
        async with serving_kubelet(sock, NODE, pods, as_node, identity, ca, rules):
            try:
                yield node
            finally:
                await node.stop()


def _node(port: int) -> Obj:
    return {
        "metadata": {"name": NODE},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": LOOPBACK_ADDRESS},
                {"type": "Hostname", "address": "a-name-that-nobody-knows"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }
