"""Nodes for a dump that has pods and no Nodes, as `kubectl get all -A` writes one.

On other nodes none of its pods would be where it is: all of them would count as lost, and be made anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts, pod_requests
from fairlead.api.quantity import QuantityError, parse
from fairlead.sim.nodes import NodeShape, node_manifest
from fairlead.study.reading import mapping_at

_ENDED = ("Succeeded", "Failed")


def stand_ins(objects: Iterable[Obj], shape: NodeShape) -> list[Obj]:
    """The nodes that pods are on, of that shape, or larger where they need more, with the labels that they select."""
    requested: dict[str, Amounts] = {}
    labels: defaultdict[str, dict[str, str]] = defaultdict(dict)
    pods = Counter[str]()
    for obj in objects:
        node = mapping_at(obj, "spec").get("nodeName") if obj["kind"] == "Pod" else None
        if not isinstance(node, str) or not node:
            continue
        total = requested.setdefault(node, {})
        labels[node] |= mapping_at(obj, "spec", "nodeSelector")
        if mapping_at(obj, "status").get("phase") not in _ENDED:
            pods[node] += 1
            for name, amount in _requests(obj).items():
                total[name] = total[name] + amount if name in total else amount
    return [
        node_manifest(name, _amounts(amounts, pods[name], shape), labels[name])
        for name, amounts in sorted(requested.items())
    ]


def _requests(pod: Obj) -> Amounts:
    try:
        return pod_requests(pod["spec"])
    except (AttributeError, TypeError, QuantityError):
        return {}  # what is malformed is refused when it is stored


def _amounts(requested: Amounts, pods: int, shape: NodeShape) -> dict[str, str]:
    found = shape.amounts()
    for name, amount in [*requested.items(), ("pods", parse(str(pods)))]:
        if parse(found.get(name, "0")) < amount:
            found[name] = str(amount)
    return found
