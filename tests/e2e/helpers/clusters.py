"""Clusters of exactly the nodes that a scenario names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from fairlead.api.objects import Obj
from tests.processes import Up, fairlead_up


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    allocatable_memory: str = "",
    pods: int = 110,
    annotations: Mapping[str, str] | None = None,
    **labels: str,
) -> Obj:
    """The manifest of a node of that size."""
    capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": dict(annotations or {})},
        "status": {"capacity": capacity, "allocatable": capacity | {"memory": allocatable_memory or memory}},
    }


@contextmanager
def cluster_of(folder: Path, *nodes: Obj, options: tuple[str, ...] = ()) -> Iterator[Up]:
    """A cluster of these nodes alone while the block runs."""
    manifest = folder / "nodes.yaml"
    manifest.write_text(yaml.safe_dump_all(nodes))
    with fairlead_up(folder / "data", "--nodes-from", str(manifest), *options) as up:
        yield up
