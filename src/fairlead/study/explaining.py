"""Why a pod of a cluster waits, is where it is, or is gone: the decision taken again, with what the node and the share
of its namespace have to do with it. `fairlead why` prints it, the dashboard shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED
from fairlead.api.verbs import Api, ListQuery
from fairlead.arbitrator.explain import notes
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.client.informer import Informers
from fairlead.node.explain import NodeStory, node_story
from fairlead.node.throttling import Throttling, throttling_of
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.explain import Explanation, explain

#: How long the nodes and pods of a cluster may take to arrive.
_READ_SECONDS: Final = 60.0
#: Events that are told of a pod that is gone.
_TOLD: Final = 5
#: Events that say why a pod came to its end.
_ENDS: Final = frozenset({"Reclaimed", "Preempted", "Evicted", "TaintManagerEviction"})


class Unreadable(Exception):
    """Not everything can be read that decides."""


async def explained_pod(api: Api, configuration: Configuration | None, key: str) -> Explanation | None:
    """The decision taken over a copy of the cluster, which is read for it; nothing is changed anywhere.

    None: there is no such pod, and nothing is known of one. Raises Unreadable.
    """
    namespace, _, name = key.partition("/")
    try:
        manifest = (await api.get(builtin.PODS, name, namespace)).obj()
    except NotFound:
        return await _gone(api, key)
    story = await _node_story(api, manifest)
    if story is not None and manifest["status"].get("phase") in FINISHED:
        return Explanation(key, story.headline, notes=list(story.notes))
    informers = Informers(api)
    model = ClusterModel(informers, configuration)
    listening = asyncio.create_task(informers.run())
    try:
        await _synced(model)
        explanation = explain(model, key)
        pod = model.pod(key)
        if explanation is None or pod is None:
            return await _gone(api, key)
        about_share = notes(pod, await _allocations(api))
        if about_share and not pod.spec.node_name:
            explanation.headline = f"{key} waits for the share of its namespace"
        explanation.notes[:0] = about_share
        if story is not None:
            explanation.notes[:0] = [story.headline, *story.notes]
        return explanation
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _synced(model: ClusterModel) -> None:
    """Raises Unreadable where not everything can be read: informers try for ever."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await model.synced()
    except TimeoutError:
        raise Unreadable(
            f"not all of the cluster could be read in {_READ_SECONDS:.0f} s: may you list nodes, pods and volumes?"
        ) from None


async def _allocations(api: Api) -> list[Allocation]:
    try:
        return [item.view(Allocation) for item in (await api.list(ALLOCATIONS)).items]
    except NotFound:
        return []  # no arbitrator has been here


async def _node_story(api: Api, pod: Obj) -> NodeStory | None:
    """What the pod's node did to it."""
    meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
    if not node:
        return None
    of_pod = await _events(api, f"involvedObject.kind=Pod,involvedObject.name={meta['name']}", meta["namespace"])
    of_node = await _events(api, f"involvedObject.kind=Node,involvedObject.name={node}", "")
    query = ListQuery(fields=f"spec.nodeName={node},status.phase=Failed")
    failed = [found.obj() for found in (await api.list(builtin.PODS, meta["namespace"], query)).items]
    return node_story(pod, of_pod, of_node, failed, await _throttling(api, pod))


async def _throttling(api: Api, pod: Obj) -> Mapping[str, Throttling]:
    """What its kubelet shows of it; nothing where there is none, or it may not be asked."""
    if pod["status"].get("phase") != "Running":
        return {}
    try:
        text = await api.get(builtin.NODES, pod["spec"]["nodeName"], "", "proxy/metrics/cadvisor")
    except ApiError:
        return {}
    return throttling_of(pod, text.raw.decode(errors="replace"))


async def _events(api: Api, fields: str, namespace: str) -> list[Obj]:
    """The oldest first."""
    found = [event.obj() for event in (await api.list(builtin.EVENTS, namespace, ListQuery(fields=fields))).items]
    return sorted(found, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


async def _gone(api: Api, key: str) -> Explanation | None:
    """What the events say of a pod that is not there any more; None if they know nothing of it."""
    namespace, _, name = key.partition("/")
    found = await _events(api, f"involvedObject.kind=Pod,involvedObject.name={name}", namespace)
    if not found:
        return None
    messages = [f"{event['reason']}: {event['message']}" for event in found]
    why = next((text for text in reversed(messages) if text.split(":")[0] in _ENDS), "")
    headline = f"{key} is gone" + (f", {why.partition(': ')[2]}" if why else "")
    return Explanation(key, headline, notes=[text for text in messages[-_TOLD:] if text != why])
