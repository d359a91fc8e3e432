"""What the commands read: node lists, pod lists, dumps of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fairlead.api.objects import Obj
from fairlead.sim import manifests, openb
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.openb import Arrival


def node_objects(path: Path | None, imported: Iterable[Obj], count: int, shape: NodeShape) -> list[Obj]:
    """The nodes of a file, those of a dump, or `count` nodes of one shape."""
    if path is None:
        if nodes := [obj for obj in imported if obj["kind"] == "Node"]:
            return nodes
        return uniform(count, shape)
    if path.suffix == ".csv":
        if not openb.is_node_list(path):
            raise ValueError(f"{path} is no openb node list")
        return openb.read_nodes(path)
    nodes = [manifests.portable(obj) for obj in manifests.read(path) if obj["kind"] == "Node"]
    if not nodes:
        raise ValueError(f"{path} holds no Node")
    return nodes


def arrivals(path: Path) -> list[Arrival]:
    """The pods of a file and when they come; those of a manifest come at once."""
    if path.suffix == ".csv":
        return openb.read_pods(path)
    return [Arrival(0.0, manifests.portable(obj)) for obj in manifests.read(path) if obj["kind"] == "Pod"]


def imported_objects(paths: Iterable[Path]) -> Iterator[Obj]:
    """Every object of the dumps, without what belonged to their cluster."""
    for path in paths:
        for obj in manifests.read(path):
            yield manifests.portable(obj)
