"""HTTP extenders: services that are asked about pods and nodes beside the plugins (k8s.io/kube-scheduler/extender/v1).

An extender filters the nodes that the plugins let pass, adds to their scores, has a say in whom preemption drives away,
and may bind. It hears of a pod if it manages one of its resources, or none in particular. One that is `ignorable` and
does not answer is left out; any other failure is the pod's.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.client.kubeconfig import Access
from fairlead.client.tls import tls_of
from fairlead.golang.durations import non_negative_seconds
from fairlead.scheduler.configuration import ExtenderConfig
from fairlead.scheduler.framework import MAX_NODE_SCORE, ExtenderFailure
from fairlead.scheduler.preemption_plans import PreemptionPlan

#: Extenders score up to this.
MAX_EXTENDER_SCORE: Final = 10


class Filtered(msgspec.Struct):
    """What the extenders left of the nodes, and why not the others."""

    names: list[str]
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    unresolvable: dict[str, str] = msgspec.field(default_factory=dict)


class Extender:
    """One extender."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._timeout = aiohttp.ClientTimeout(total=non_negative_seconds(config.http_timeout))
        self._tls = tls_of(_access(config)) if config.url_prefix.startswith("https") else None
        self._server_name = (config.tls_config or {}).get("serverName") or None

    def is_interested(self, pod: Pod) -> bool:
        """Whether it is asked about the pod: a limit of an extended resource is a request for it, too."""
        if not self._managed:
            return True
        containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
        return any(name in self._managed for container in containers for name in container.resources.requests or ())

    async def ask(self, session: aiohttp.ClientSession, verb: str, body: Obj) -> Any:
        """POST to one of its verbs. Raises ExtenderFailure."""
        url = f"{self.config.url_prefix.rstrip('/')}/{verb}"
        try:
            async with session.post(
                url, json=body, timeout=self._timeout, ssl=self._tls or True, server_hostname=self._server_name
            ) as response:
                if response.status != 200:
                    raise ExtenderFailure(f"failed {verb} with extender at URL {url}, code {response.status}")
                return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ExtenderFailure(
                f"failed {verb} with extender at URL {url}: {error or type(error).__name__}"
            ) from error


class Extenders:
    """All extenders of a scheduler, in the order in which they are asked."""

    def __init__(self, configs: Iterable[ExtenderConfig], api: Api) -> None:
        self._all = [Extender(config) for config in configs]
        self._api = api
        self._session: aiohttp.ClientSession | None = None

    def interested(self, pod: Pod) -> list[Extender]:
        return [extender for extender in self._all if extender.is_interested(pod)]

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def filter(self, pod: Pod, names: Sequence[str]) -> Filtered:
        """The nodes that all of them let pass. Raises ExtenderFailure."""
        left = Filtered(list(names))
        for extender in self.interested(pod):
            if not left.names or not extender.config.filter_verb:
                continue
            try:
                answer = await extender.ask(
                    self._open(), extender.config.filter_verb, await self._args(extender, pod, left.names)
                )
                if answer.get("Error"):
                    raise ExtenderFailure(answer["Error"])
                names = _names_of(extender, answer, left.names)
            except ExtenderFailure:
                if extender.config.ignorable:
                    continue
                raise
            left.failed |= answer.get("FailedNodes") or {}
            left.unresolvable |= answer.get("FailedAndUnresolvableNodes") or {}
            left.names = names
        return left

    async def prioritise(self, pod: Pod, names: Sequence[str]) -> dict[str, int]:
        """What they add to the total of each node; who does not answer adds nothing."""
        total = dict.fromkeys(names, 0)
        for extender in self.interested(pod):
            if not extender.config.prioritize_verb:
                continue
            try:
                scores = await extender.ask(
                    self._open(), extender.config.prioritize_verb, await self._args(extender, pod, names)
                )
            except ExtenderFailure:
                continue
            for score in scores or ():
                if score["Host"] in total:
                    total[score["Host"]] += (
                        score["Score"] * extender.config.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
                    )
        return total

    async def preempt(self, pod: Pod, plans: Mapping[str, PreemptionPlan]) -> dict[str, PreemptionPlan]:
        """The nodes, with the victims, to which they agree. Raises ExtenderFailure."""
        left = dict(plans)
        for extender in self.interested(pod):
            if not extender.config.preempt_verb or not left:
                continue
            victims = {
                node: {
                    "Pods": [await self._victim(extender, victim.pod) for victim in plan.victims],
                    "NumPDBViolations": plan.violations,
                }
                for node, plan in left.items()
            }
            form = "NodeNameToMetaVictims" if extender.config.node_cache_capable else "NodeNameToVictims"
            body: Obj = {"Pod": await self._pod(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
            body[form] = victims
            try:
                answer = await extender.ask(self._open(), extender.config.preempt_verb, body)
            except ExtenderFailure:
                if extender.config.ignorable:
                    continue
                raise
            answered: Mapping[str, Obj] = answer.get("NodeNameToMetaVictims") or {}
            left = {node: _agreed(left[node], victims) for node, victims in answered.items() if node in left}
            for node in [node for node, plan in left.items() if not plan.victims]:
                if not extender.config.ignorable:
                    raise ExtenderFailure(f'expected at least one victim pod on node "{node}"')
                del left[node]
        return left

    async def bind(self, pod: Pod, node: str) -> bool:
        """Let the extender that wants to do it bind the pod; False if none does. Raises ExtenderFailure."""
        for extender in self.interested(pod):
            if extender.config.bind_verb:
                meta = pod.metadata
                body = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
                try:
                    answer = await extender.ask(self._open(), extender.config.bind_verb, body)
                    if answer.get("Error"):
                        raise ExtenderFailure(answer["Error"])
                except ExtenderFailure:
                    if extender.config.ignorable:
                        continue
                    raise
                return True
        return False

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    async def _args(self, extender: Extender, pod: Pod, names: Sequence[str]) -> Obj:
        """`ExtenderArgs`: the nodes by name for who knows them, else as they are."""
        if extender.config.node_cache_capable:
            return {"Pod": await self._pod(pod), "Nodes": None, "NodeNames": list(names)}
        wanted = set(names)
        nodes = [item.obj() for item in (await self._api.list(builtin.NODES)).items]
        items = [node for node in nodes if node["metadata"]["name"] in wanted]
        return {"Pod": await self._pod(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    async def _victim(self, extender: Extender, pod: Pod) -> Obj:
        """By uid for who knows the pods, else as it is."""
        return {"UID": pod.metadata.uid} if extender.config.node_cache_capable else await self._pod(pod)

    async def _pod(self, pod: Pod) -> Obj:
        return (await self._api.get(builtin.PODS, pod.metadata.name, pod.metadata.namespace)).obj()


def _names_of(extender: Extender, answer: Obj, asked: Sequence[str]) -> list[str]:
    """The nodes in an answer, in whichever of its two forms."""
    if extender.config.node_cache_capable and answer.get("NodeNames") is not None:
        known = set(asked)
        for name in answer["NodeNames"]:
            if name not in known:
                raise ExtenderFailure(
                    f'extender "{extender.config.url_prefix}" claims a filtered node "{name}" '
                    "which is not found in the input node list"
                )
        return list(answer["NodeNames"])
    return [node["metadata"]["name"] for node in (answer.get("Nodes") or {}).get("items") or ()]


def _agreed(plan: PreemptionPlan, victims: Obj) -> PreemptionPlan:
    """The plan with those victims that the extender named."""
    uids = {pod["UID"] for pod in victims.get("Pods") or ()}
    return PreemptionPlan(
        tuple(victim for victim in plan.victims if victim.uid in uids), victims.get("NumPDBViolations", 0)
    )


def _access(config: ExtenderConfig) -> Access:
    """Whom to trust and what to show, as an `ExtenderTLSConfig` says: in files, or as base64 beside them."""
    tls = config.tls_config or {}

    def pem(name: str) -> bytes | None:
        if data := tls.get(f"{name}Data"):
            return b64decode(data)
        return Path(tls[f"{name}File"]).read_bytes() if tls.get(f"{name}File") else None

    insecure = bool(tls.get("insecure"))
    return Access(config.url_prefix, pem("ca"), "", pem("cert"), pem("key"), insecure=insecure)
