"""`set WHAT=VALUE`, the short form of a change: a bound of a quota, a weight, a number of nodes, a field of an object.

quota/NAMESPACE[/NAME]/requests.cpu=40      weight/CONSUMER=6      nodes=95
deployment/NAMESPACE/NAME/spec.replicas=5   priorityclass/NAME/value=100

A priority class may not be changed: it is deleted and made anew, and pods that are there keep the priority they have.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from fairlead.api.builtin import PRIORITY_CLASSES, RESOURCE_QUOTAS
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import PatchType
from fairlead.arbitrator.objects import CONSUMER_GROUPS, CONSUMERS, THE_NAME
from fairlead.golang import yaml as goyaml
from fairlead.study.changes.changed_cluster import ChangedCluster, NothingThere, natural
from fairlead.study.changes.nodes import add_nodes, remove_node

NODE_COUNT: Final = "nodes"
_WEIGHT: Final = "weight"
#: Fields that a priority class keeps as long as it is there.
_OF_NEW_CLASSES: Final = ("value", "preemptionPolicy")
#: More nodes than this are a slip of the keyboard.
MOST_NODES: Final = 100_000


def split(text: str) -> tuple[str, str]:
    """What is set, and to what. Raises ValueError for a text that is neither."""
    what, has_value, value = text.partition("=")
    if not has_value or not what or not value:
        raise ValueError(f"{text!r} sets nothing: write WHAT=VALUE, as in quota/team/requests.cpu=40")
    return what, value


async def set_value(text: str, cluster: ChangedCluster) -> None:
    what, value = split(text)
    if what == NODE_COUNT:
        await _set_nodes(value, cluster)
        return
    word, _, rest = what.partition("/")
    if word == _WEIGHT:
        await _set_weight(rest, value, cluster)
        return
    kind = cluster.kind(word)
    if kind.qualified == RESOURCE_QUOTAS.qualified:
        await _set_quota(rest, value, cluster)
    else:
        await _set_field(kind, rest, value, cluster)


async def _set_nodes(value: str, cluster: ChangedCluster) -> None:
    """The nodes with the fewest pods go first; new ones are of the most frequent size."""
    if not value.isdecimal() or int(value) > MOST_NODES:
        raise NothingThere(f"nodes={value} is no number of nodes between 0 and {MOST_NODES:,}")
    count, nodes = int(value), list(cluster.nodes)
    pods = Counter(pod.spec.node_name for pod in cluster.pods if not pod.is_finished)
    nodes.sort(key=lambda node: (pods[node.metadata.name], natural(node.metadata.name)), reverse=True)
    for node in nodes[count:]:
        await remove_node(node.metadata.name, cluster)
    if count > len(nodes):
        if not nodes:
            raise NothingThere("there is no node whose size new ones could have")
        sizes = Counter(tuple(sorted(node.status.allocatable.items())) for node in nodes)
        most = sizes.most_common(1)[0][0]
        model = min(
            (node for node in nodes if tuple(sorted(node.status.allocatable.items())) == most),
            key=lambda node: natural(node.metadata.name),
        )
        await add_nodes(count - len(nodes), model.metadata.name, cluster)


async def _set_weight(name: str, value: str, cluster: ChangedCluster) -> None:
    """Of the Consumer of a namespace, or of a ConsumerGroup."""
    if not value.isdecimal():
        raise NothingThere(f"weight {value!r} is no number")
    patch = {"spec": {"weight": int(value)}}
    try:
        groups = (await cluster.api.list(CONSUMER_GROUPS)).items
    except NotFound:
        raise NothingThere("there are no weights: nothing divides this cluster (--arbitrator)") from None
    for group in (item.obj() for item in groups):
        if group["metadata"]["name"] == name:
            await cluster.patch(CONSUMER_GROUPS, name, "", patch, PatchType.MERGE)
            return
    await cluster.patch(CONSUMERS, THE_NAME, name, patch, PatchType.MERGE)


async def _set_quota(rest: str, value: str, cluster: ChangedCluster) -> None:
    namespace, _, rest = rest.partition("/")
    name, has_name, resource = rest.rpartition("/")
    quotas = [item.obj() for item in (await cluster.api.list(RESOURCE_QUOTAS, namespace)).items] if namespace else []
    if has_name:
        quotas = [quota for quota in quotas if quota["metadata"]["name"] == name]
        if not quotas:
            raise NothingThere(f"there is no ResourceQuota {name!r} in namespace {namespace!r}")
    elif len(holders := [quota for quota in quotas if resource in _hard(quota)]) == 1:
        quotas = holders
    if not quotas:
        raise NothingThere(f"namespace {namespace!r} has no ResourceQuota")
    if len(quotas) > 1:
        names = ", ".join(sorted(quota["metadata"]["name"] for quota in quotas))
        raise NothingThere(f"which ResourceQuota of {namespace!r}: {names}? Write quota/{namespace}/NAME/{resource}")
    patch = {"spec": {"hard": {resource: value}}}
    await cluster.patch(RESOURCE_QUOTAS, quotas[0]["metadata"]["name"], namespace, patch, PatchType.MERGE)


def _hard(quota: Obj) -> Obj:
    return (quota.get("spec") or {}).get("hard") or {}


async def _set_field(kind: Resource, rest: str, value: str, cluster: ChangedCluster) -> None:
    parts = rest.split("/", 2 if kind.namespaced else 1)
    if len(parts) != (3 if kind.namespaced else 2) or not all(parts):
        form = "NAMESPACE/NAME/FIELD" if kind.namespaced else "NAME/FIELD"
        raise NothingThere(f"{kind.singular}/{rest} names no field: write {kind.singular}/{form}")
    namespace, name, path = parts if kind.namespaced else ("", *parts)
    current: Any = await cluster.get(kind, name, namespace)
    try:
        patch: Any = next(goyaml.strict_documents(value.encode()), value)
    except ValueError as problem:
        raise NothingThere(f"{value!r} is no value: {problem}") from None
    *way, field = path.split(".")
    for part in way:
        current = current.get(part) if isinstance(current, dict) else None
        if not isinstance(current, dict):
            raise NothingThere(f"{kind.kind} {name!r} has no {part!r} in {path}")
    if kind.qualified == PRIORITY_CLASSES.qualified and path in _OF_NEW_CLASSES:
        await cluster.replace(kind, current | {field: patch})
        return
    for part in reversed([*way, field]):
        patch = {part: patch}
    await cluster.patch(kind, name, namespace, patch, PatchType.MERGE)
