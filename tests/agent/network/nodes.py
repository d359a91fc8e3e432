"""Nodes of a cluster for tests: an API server's registry, and a `PodNetwork` in each of some namespaces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from fairlead.agent.network.pod_network import PodNetwork
from fairlead.agent.network.reset import reset
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.network_seam import HostPort
from fairlead.api.builtin import ENDPOINT_SLICES, NODES, PODS, SERVICES
from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from tests.agent.network.namespaces import ApiElsewhere, Loop, Namespace, Wire
from tests.registry_api import RegistryApi


def eventually(check: Callable[[], Any], seconds: float = 10.0) -> None:
    """The check holds within that time; it is asked until then."""
    asyncio.run(_eventually(check, seconds))


async def _eventually(check: Callable[[], Any], seconds: float) -> None:
    for attempt in itertools.count():
        try:
            assert check()
            return
        except (AssertionError, OSError):
            if attempt * 0.05 > seconds:
                raise
        await asyncio.sleep(0.05)


class Pod:
    def __init__(self, name: str, namespace: Namespace, node: Node, address: str) -> None:
        self.name, self.netns, self.node, self.address = name, namespace, node, address

    def ask(self, address: str, port: int, timeout: float = 2.0) -> str:
        return self.netns.ask(address, port, timeout)


class Node:
    def __init__(self, name: str, netns: Namespace, cluster: Cluster, root: Path, conflist: Path | None = None) -> None:
        self.name, self.netns, self.cluster = name, netns, cluster
        resolv = root.with_suffix(".resolv.conf")
        resolv.touch()
        self.settings = NetworkSettings(node_name=name, root=root, host_resolv_conf=resolv, conflist=conflist)
        self.loop = Loop(netns)
        self.network: PodNetwork
        self.is_closed = False
        self.start()

    def start(self) -> None:
        """An agent begins."""
        self.loop.call(self._start())

    async def _start(self) -> None:
        self.api = ApiElsewhere(self.cluster.api, self.cluster.home)
        informers = None if self.settings.conflist else Informers(cast(Api, self.api))
        self.network = PodNetwork(self.settings, informers)
        self._task = asyncio.create_task(self.network.run())

    def stop(self) -> None:
        """The agent ends; pods keep what they have."""
        self.loop.call(self._stop())

    async def _stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def pod(self, name: str, host_ports: Iterable[HostPort] = (), **labels: str) -> Pod:
        """A pod of the namespace `default`, attached, and known to the API server."""
        self.cluster.put(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {"nodeName": self.name, "containers": [{"name": "app", "image": "app", "ports": PORTS}]},
            },
        )
        netns = self.cluster.wire.namespace(name)
        attach = self.network.attach(netns.path, "default", name, f"uid-{name}", f"id-{name}", host_ports)
        (address,) = self.loop.call(attach)
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        self.cluster.patch(PODS, name, {"status": status}, "default", subresource="status")
        return Pod(name, netns, self, address)

    def detach(self, pod: Pod) -> None:
        self.loop.call(self.network.detach(f"id-{pod.name}"))

    def close(self) -> None:
        """The agent ends, and all that it made goes."""
        if not self.is_closed:
            self.stop()
            self.loop.call(reset(self.settings))
            self.loop.close()
            self.is_closed = True


PORTS = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]


class Cluster:
    """An API server, and machines on a wire."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wire = Wire()
        self.home = Loop()
        self.api = self.home.call(self._opened())
        self.nodes: list[Node] = []

    async def _opened(self) -> RegistryApi:
        return await RegistryApi().__aenter__()

    def node(self, name: str, conflist: Path | None = None) -> Node:
        number = len(self.nodes) + 1
        addresses = [{"type": "InternalIP", "address": f"192.168.77.{number}"}]
        self.put(NODES, {"metadata": {"name": name}, "status": {"addresses": addresses}})
        made = Node(name, self.wire.host(name, number), self, self.folder / name, conflist)
        self.nodes.append(made)
        return made

    def put(self, resource: Resource, obj: Obj) -> None:
        self.home.call(self.api.put(resource, obj))

    def patch(self, resource: Resource, name: str, patch: Obj, namespace: str = "", subresource: str = "") -> None:
        self.home.call(self.api.patch(resource, name, namespace, patch, subresource=subresource))

    def delete(self, resource: Resource, name: str, namespace: str = "default") -> None:
        self.home.call(self.api.delete(resource, name, namespace))

    def listed(self, resource: Resource) -> list[Encoded]:
        return self.home.call(self.api.list(resource, "")).items

    def service(self, name: str, cluster_ip: str, pods: Iterable[Pod] = (), **spec: Any) -> None:
        """A service whose port 80 is 8080 of these pods."""
        ports = [
            {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
            {"name": "echo", "port": 81, "targetPort": 8081, "protocol": "UDP"},
        ]
        if "nodePort" in spec:
            ports[0]["nodePort"] = spec.pop("nodePort")
        addresses = {"clusterIP": cluster_ip, "clusterIPs": [cluster_ip]}
        full = {"type": "ClusterIP", "ports": ports} | addresses | spec
        self.put(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": full})
        self.put(ENDPOINT_SLICES, self.slice(name, pods))

    def slice(self, service: str, pods: Iterable[Pod]) -> Obj:
        return {
            "metadata": {
                "name": f"{service}-1",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "echo", "port": 8081, "protocol": "UDP"},
            ],
            "endpoints": [
                {"addresses": [pod.address], "nodeName": pod.node.name, "conditions": {"ready": True}} for pod in pods
            ],
        }

    def serve(self, service: str, pods: Iterable[Pod]) -> None:
        """The service has these endpoints from now on."""
        self.patch(ENDPOINT_SLICES, f"{service}-1", {"endpoints": self.slice(service, pods)["endpoints"]}, "default")

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        self.home.call(self.api.__aexit__(None, None, None))
        self.home.close()
        self.wire.close()
