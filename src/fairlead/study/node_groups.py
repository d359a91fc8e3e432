"""Node groups that an autoscaler of the dump's cluster keeps, read as pools that grow and shrink in a study.

Karpenter NodePool (its nodes: the label)          ──▶ pool: nodes as most of those there, at most what its limits allow
Cluster API MachineDeployment, MachineSet, -Pool   ──▶ pool: between the sizes of its annotations, nodes as these say

The nodes that are there become members. What a pool has no word for is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.sim.manifests import is_node
from fairlead.study.changes.document import Step, step_of
from fairlead.study.changes.errors import ChangeError, Origin
from fairlead.study.changes.pools import POOL_LABEL

_KARPENTER: Final = "karpenter.sh/"
_KARPENTER_LABEL: Final = "karpenter.sh/nodepool"
_CLUSTER_API: Final = "cluster.x-k8s.io/"
_MACHINE_KINDS: Final = ("MachineDeployment", "MachineSet", "MachinePool")
_SIZE: Final = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
#: What a node says of the Machine that it is.
_OWNER_NAME: Final = "cluster.x-k8s.io/owner-name"
#: Where nothing limits a group; and what "never" comes to.
_MOST_NODES: Final = 1000
_NEVER: Final = "36500d"
#: Labels that are each node's own.
_OWN_LABELS: Final = frozenset({"kubernetes.io/hostname"})
#: What annotations of Cluster API say that a pool has a word for, or no need of.
_SAID: Final = frozenset({"cpu", "memory", "labels", "maxPods", "ephemeral-disk", "taints", "gpu-type", "gpu-count"})
_SHAPED_BY: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


class NodeGroups(msgspec.Struct):
    steps: list[Step] = msgspec.field(default_factory=list)
    #: What could not be mapped, in lines of text.
    notes: list[str] = msgspec.field(default_factory=list)


def node_groups(objects: Sequence[Obj]) -> NodeGroups:
    """The pools of a dump; its nodes are labelled as their members."""
    found, nodes = NodeGroups(), list(filter(is_node, objects))
    slices = [obj for obj in objects if obj["kind"] == "ResourceSlice"]
    for obj in objects:
        if _is_karpenters(obj):
            _karpenter(obj, nodes, slices, found)
        elif _is_cluster_apis(obj):
            _cluster_api(obj, nodes, slices, found)
    return found


def has_groups(objects: Iterable[Obj]) -> bool:
    """Whether an autoscaler of nodes minds some of the dump's."""
    return any(_is_karpenters(obj) or _is_cluster_apis(obj) for obj in objects)


def _is_karpenters(obj: Obj) -> bool:
    return obj["kind"] == "NodePool" and str(obj.get("apiVersion", "")).startswith(_KARPENTER)


def _is_cluster_apis(obj: Obj) -> bool:
    """One that an autoscaler may size."""
    annotations = _dict(metadata(obj), "annotations")
    is_sized = any(_SIZE.format(bound) in annotations for bound in ("min", "max"))
    return obj["kind"] in _MACHINE_KINDS and str(obj.get("apiVersion", "")).startswith(_CLUSTER_API) and is_sized


def _karpenter(pool: Obj, nodes: Sequence[Obj], slices: Sequence[Obj], found: NodeGroups) -> None:
    name, spec = str(metadata(pool).get("name", "")), _dict(pool, "spec")
    title, template = f"NodePool {name}", _dict(spec, "template")
    members = [node for node in nodes if _labels(node).get(_KARPENTER_LABEL) == name]
    if not members:
        found.notes.append(f"{title}: the dump has none of its nodes, so their size is not known; it is left out")
        return
    shape = _commonest(members)
    unmapped = sorted(spec.keys() & {"weight", "replicas"}) + sorted(_dict(spec, "disruption").keys() & {"budgets"})
    if (policy := _dict(spec, "disruption").get("consolidationPolicy")) not in (None, "WhenEmpty"):
        unmapped.append(f"consolidationPolicy: {policy} (nodes go when they are empty)")
    if unmapped:
        found.notes.append(f"{title}: {', '.join(unmapped)} could not be mapped")
    if len(requirements := _dict(template, "spec").get("requirements") or ()) and _varied(members):
        found.notes.append(f"{title}: of what its {len(requirements)} requirements allow, nodes are as most of its own")
    after = _dict(spec, "disruption").get("consolidateAfter") or "0s"
    _add(
        found,
        title,
        members,
        shape,
        {
            "name": name,
            "max": _limit(_dict(spec, "limits"), shape, title, found),
            "labels": _common_labels(members) | _texts(_dict(template, "metadata", "labels")),
            "taints": _taints(_dict(template, "spec").get("taints")),
            "devices": _devices(members, slices),
            "scaleDownAfter": _NEVER if after == "Never" else str(after),
        },
    )


def _cluster_api(group: Obj, nodes: Sequence[Obj], slices: Sequence[Obj], found: NodeGroups) -> None:
    name, annotations = str(metadata(group).get("name", "")), _texts(_dict(metadata(group), "annotations"))
    title = f"{group['kind']} {name}"
    sizes = [annotations.get(_SIZE.format(bound), "") for bound in ("min", "max")]
    if not all(size.isdecimal() and len(size) < 7 for size in sizes):
        found.notes.append(f"{title}: sizes {' to '.join(map(repr, sizes))} are no bounds; it is left out")
        return
    members = [node for node in nodes if _is_of(node, group)]
    said = {key.removeprefix(_CAPACITY): value for key, value in annotations.items() if key.startswith(_CAPACITY)}
    shape: dict[str, str] = {key: said[key] for key in ("cpu", "memory") if key in said}
    if len(shape) < 2 and members:
        shape = _commonest(members) | shape
    if len(shape) < 2:
        found.notes.append(f"{title}: neither its annotations nor nodes of it say how large they are; it is left out")
        return
    if (gpu := said.get("gpu-type")) and said.get("gpu-count"):
        shape[gpu] = said["gpu-count"]
    if unmapped := sorted(said.keys() - _SAID):
        found.notes.append(f"{title}: {', '.join(unmapped)} could not be mapped")
    labels = dict(pair.split("=", 1) for pair in said.get("labels", "").split(",") if "=" in pair)
    own = {"name": name, "min": int(sizes[0]), "max": int(sizes[1])}
    more = {"taints": _written_taints(said.get("taints", "")), "devices": _devices(members, slices)}
    _add(found, title, members, shape, {**own, **more, "labels": _common_labels(members) | labels})


def _add(found: NodeGroups, title: str, members: Sequence[Obj], shape: Mapping[str, str], pool: Obj) -> None:
    resources = {name: amount for name, amount in shape.items() if "/" in name}
    if unknown := sorted(shape.keys() - resources.keys() - _SHAPED_BY):
        found.notes.append(f"{title}: {', '.join(unknown)} of its nodes could not be mapped; it is left out")
        return
    sizes = {"cpu": shape["cpu"], "memory": shape["memory"], "resources": resources}
    try:
        step = step_of(Origin(title), "pool", sizes | pool)
    except (ChangeError, KeyError) as problem:
        found.notes.append(f"{title}: could not be mapped: {problem}")
        return
    for node in members:
        meta = metadata(node)
        meta["labels"] = _labels(node) | {POOL_LABEL: pool["name"]}
    found.steps.append(step)
    found.notes.append(f"{title}: {step.action.text}, {len(members)} there")


def _limit(limits: Mapping[str, Any], shape: Mapping[str, str], title: str, found: NodeGroups) -> int:
    """How many nodes of that shape its limits allow."""
    counts = [_times(limits.get(name), size) for name, size in shape.items() if name in limits]
    counts += [_times(limits["nodes"], "1")] if "nodes" in limits else []
    known = [count for count in counts if count is not None]
    if not known:
        found.notes.append(f"{title}: has no limits: {_MOST_NODES:,} nodes at most")
    return min([*known, _MOST_NODES])


def _times(limit: object, size: str) -> int | None:
    whole, part = _amount(limit), _amount(size)
    return None if whole is None or part is None or part.nanos <= 0 else max(whole.nanos // part.nanos, 0)


def _amount(text: object) -> Quantity | None:
    try:
        return parse(str(text))
    except QuantityError:
        return None


def _is_of(node: Obj, group: Obj) -> bool:
    """A node names the MachineSet of its machine; that of a MachineDeployment is called after it."""
    owner, name = _texts(_dict(metadata(node), "annotations")).get(_OWNER_NAME, ""), str(metadata(group).get("name"))
    if group["kind"] == "MachineDeployment":
        return owner.rpartition("-")[0] == name
    return owner == name


def _commonest(members: Iterable[Obj]) -> dict[str, str]:
    """What most of them can give away."""
    counts = Counter(tuple(sorted(_size(node).items())) for node in members)
    return dict(min(counts.items(), key=lambda entry: (-entry[1], entry[0]))[0])


def _varied(members: Iterable[Obj]) -> bool:
    return len({tuple(sorted(_size(node).items())) for node in members}) > 1


def _size(node: Obj) -> dict[str, str]:
    status = _dict(node, "status")
    amounts = _texts(_dict(status, "allocatable") or _dict(status, "capacity"))
    return {name: amount for name, amount in amounts.items() if (found := _amount(amount)) and found.nanos > 0}


def _common_labels(members: Sequence[Obj]) -> dict[str, str]:
    """Those that all of them have."""
    if not members:
        return {}
    first, *others = map(_labels, members)
    return {
        key: value
        for key, value in first.items()
        if key not in _OWN_LABELS and all(labels.get(key) == value for labels in others)
    }


def _taints(listed: object) -> list[Obj]:
    """Those that keep pods away for good."""
    taints = [taint for taint in listed if isinstance(taint, dict)] if isinstance(listed, list) else []
    return [_texts({key: taint.get(key) for key in ("key", "value", "effect")}) for taint in taints]


def _written_taints(text: str) -> list[Obj]:
    """`key=value:Effect,…`"""
    found = []
    for part in filter(None, text.split(",")):
        rest, _, effect = part.partition(":")
        key, _, value = rest.partition("=")
        found.append({"key": key, "value": value, "effect": effect})
    return found


def _devices(members: Sequence[Obj], slices: Sequence[Obj]) -> list[Obj]:
    """Those of the first of the nodes that has any, by driver."""
    for node in members:
        name, found = metadata(node).get("name"), dict[str, list[Any]]()
        for spec in (_dict(obj, "spec") for obj in slices):
            if spec.get("nodeName") == name and isinstance(devices := spec.get("devices"), list):
                found.setdefault(str(spec.get("driver")), []).extend(devices)
        if found:
            return [{"driver": driver, "devices": devices} for driver, devices in found.items()]
    return []


def _labels(node: Obj) -> dict[str, str]:
    return _texts(_dict(metadata(node), "labels"))


def _dict(value: Any, *path: str) -> dict[str, Any]:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _texts(mapping: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in mapping.items() if isinstance(value, str)}
