"""Keeps the rules of policies current: whatever changed, all pods of this node are looked at again, beside the loop.

A pod is attached only when its rules are decided, which takes that it was seen: without its labels nobody knows who
selects it. One that is not known any more, and still runs, is isolated if its namespace has policies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from fairlead.agent.network.cni.attachments import Attachment
from fairlead.agent.network.nftables.table import NOTHING, Fragment
from fairlead.agent.network.nftables.writer import TableWriter
from fairlead.agent.network.policies.compile import ISOLATED, PodFacts, World, compiled
from fairlead.agent.network.policies.rules import policy_rules
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.network.views import NetworkPolicy, Pod
from fairlead.api.builtin import NAMESPACES, NETWORK_POLICIES, PODS
from fairlead.api.meta import Object
from fairlead.api.pods import FINISHED
from fairlead.client.informer import Informer, Informers
from fairlead.runtime.clock import monotonic
from fairlead.runtime.offload import offload

#: What happens within this time is looked at together.
SETTLE_SECONDS: Final = 0.05
#: After a look that took long, so many times as long goes by before the next one.
_REST: Final = 4


class PolicyEngine:
    """Make it before the informers run."""

    def __init__(self, settings: NetworkSettings, informers: Informers, writer: TableWriter) -> None:
        self._node, self._writer = settings.node_name, writer
        self._policies: Informer[NetworkPolicy] = informers.of(NETWORK_POLICIES, NetworkPolicy)
        self._pods: Informer[Pod] = informers.of(PODS, Pod)
        self._namespaces: Informer[Object] = informers.of(NAMESPACES, Object)
        #: The addresses of the pods of this node, by `namespace/name`; and those whose rules were decided.
        self._local: dict[str, str] = {}
        self._decided: dict[str, str] = {}
        self._progress = asyncio.Condition()
        self._submitted: dict[str, Fragment] = {}
        self._wake = asyncio.Event()
        self._took_seconds = 0.0
        self._policies.subscribe(lambda old, new: self._wake.set())
        self._pods.subscribe(self._on_pod)
        self._namespaces.subscribe(self._on_namespace)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or self._facts(old, self._local) != self._facts(new, self._local):
            self._wake.set()

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._wake.set()

    def attached(self, attachment: Attachment) -> None:
        if attachment.ipv4 is not None:
            self._local[_key(attachment)] = attachment.ipv4
            self._wake.set()

    async def decided(self, attachment: Attachment) -> None:
        """Return once the rules of an attached pod were submitted."""
        async with self._progress:
            await self._progress.wait_for(
                lambda: attachment.ipv4 is None or self._decided.get(_key(attachment)) == attachment.ipv4
            )

    def detached(self, attachment: Attachment) -> None:
        if self._local.get(_key(attachment)) == attachment.ipv4:  # else it is of another pod of that name by now
            self._local.pop(_key(attachment), None)
            self._wake.set()

    async def first(self) -> None:
        """Submit the rules of everything that is there."""
        for informer in (self._policies, self._pods, self._namespaces):
            await informer.synced()
        await self._decide()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(max(SETTLE_SECONDS, _REST * self._took_seconds))
            began = monotonic()
            await self._decide()
            self._took_seconds = monotonic() - began

    async def _decide(self) -> None:
        self._wake.clear()
        local, policies = dict(self._local), list(self._policies)
        pods = list(self._pods) if policies else []
        namespaces = {item.metadata.name: item.metadata.labels for item in self._namespaces}
        governed = {policy.metadata.namespace for policy in policies}
        unknown = [key for key in local if key.partition("/")[0] in governed and self._pods.get(key) is None]

        def decide() -> dict[str, Fragment]:
            facts = (self._facts(pod, local) for pod in pods)
            world = World((found for found in facts if found is not None), namespaces)
            rules = compiled(policies, world) | dict.fromkeys(unknown, ISOLATED)
            return policy_rules(rules, local)

        self._submit(await offload(decide, is_long=bool(policies)))
        async with self._progress:
            self._decided = {key: address for key, address in local.items() if key not in unknown}
            self._progress.notify_all()

    def _submit(self, fragments: Mapping[str, Fragment]) -> None:
        gone = dict.fromkeys(self._submitted.keys() - fragments.keys(), NOTHING)
        changed = {owner: part for owner, part in fragments.items() if self._submitted.get(owner) != part}
        if gone or changed:
            self._writer.submit(gone | changed)
        self._submitted = dict(fragments)

    def _facts(self, pod: Pod, addresses: Mapping[str, str]) -> PodFacts | None:
        """None if it has no address of its own. Of pods of this node we know it before the API server does."""
        is_local = pod.spec.node_name == self._node
        address = addresses.get(pod.metadata.key) if is_local else _address(pod)
        if address is None or pod.spec.host_network:
            return None
        ports = {
            (port.name, port.protocol): port.container_port
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for port in container.ports
            if port.name
        }
        meta = pod.metadata
        return PodFacts(meta.namespace, meta.name, address, meta.labels, ports, is_local)


def _address(pod: Pod) -> str | None:
    if pod.status.phase in FINISHED:
        return None
    for entry in pod.status.pod_ips:
        try:
            return str(IPv4Address(entry.ip))
        except AddressValueError:
            continue
    return None


def _key(attachment: Attachment) -> str:
    """A pod that a file describes has another uid than what the API server shows of it."""
    return f"{attachment.namespace}/{attachment.name}"
