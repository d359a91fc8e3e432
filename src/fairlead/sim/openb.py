"""The openb trace (a production GPU cluster, public) as nodes and pods.

How a row is read is part of the experiment, so that every scheduler sees the same cluster: cpu in milli-cores, memory
in MiB, GPUs as the extended resource `openb.trace/gpu-milli`, the GPU models a pod accepts as a required node affinity.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead.api.objects import Obj
from fairlead.api.quantity import canonical
from fairlead.sim.containers import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.nodes import node

GPU = "openb.trace/gpu-milli"
MODEL_LABEL = "openb.trace/gpu-model"
QOS_LABEL = "openb.trace/qos"
NODE_PODS = "110"
_NODE_COLUMNS = {"sn", "cpu_milli", "memory_mib", "gpu", "model"}
_POD_COLUMNS = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time"}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod and when it comes, in seconds after the beginning of the trace."""

    at: float
    pod: Obj


def is_node_list(path: Path) -> bool:
    """Whether the file is a CSV with the columns of an openb node list."""
    with path.open(newline="") as file:
        return set(next(csv.reader(file), ())) >= _NODE_COLUMNS


def read_nodes(path: Path) -> list[Obj]:
    """The nodes of a node list, in its order."""
    with path.open(newline="") as file:
        return [_node(row) for row in csv.DictReader(file)]


def read_pods(path: Path) -> list[Arrival]:
    """The pods of a pod list, by arrival. Raises ValueError if the file is none."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = _POD_COLUMNS - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"{path} is no openb pod list: it has no column {', '.join(sorted(missing))}")
        arrivals = [Arrival(float(row["creation_time"]), _pod(row)) for row in rows]
    return sorted(arrivals, key=lambda one: one.at)


def _node(row: dict[str, str]) -> Obj:
    amounts = {
        "cpu": canonical(f"{row['cpu_milli']}m"),
        "memory": canonical(f"{row['memory_mib']}Mi"),
        "pods": NODE_PODS,
    }
    if gpus := int(row["gpu"] or 0):
        amounts[GPU] = canonical(str(1000 * gpus))
    return node(row["sn"], amounts, {MODEL_LABEL: row["model"]} if row["model"] else {})


def _pod(row: dict[str, str]) -> Obj:
    requests = {"cpu": canonical(f"{row['cpu_milli']}m"), "memory": canonical(f"{row['memory_mib']}Mi")}
    resources: Obj = {"requests": requests}
    if gpu := int(row["num_gpu"] or 0) * int(row["gpu_milli"] or 0):
        requests[GPU] = canonical(str(gpu))
        resources["limits"] = {GPU: requests[GPU]}
    spec: Obj = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "openb.trace/task", "resources": resources}],
    }
    if row["gpu_spec"]:
        spec["affinity"] = _affinity(row["gpu_spec"].split("|"))
    metadata: Obj = {"name": row["name"], "labels": {QOS_LABEL: row["qos"]}}
    if annotations := dict(_behaviour(row)):
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _affinity(models: list[str]) -> Obj:
    expression = {"key": MODEL_LABEL, "operator": "In", "values": models}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _behaviour(row: dict[str, str]) -> Iterator[tuple[str, str]]:
    """A pod lives as long as it did in the trace; one without an end stays."""
    deleted, scheduled = row.get("deletion_time"), row.get("scheduled_time")
    if not deleted or not scheduled:
        return
    lifetime = float(deleted) - float(scheduled)
    if lifetime > 0:
        yield LIFETIME_SECONDS, f"{lifetime:g}" if lifetime % 1 else str(int(lifetime))
        if row.get("pod_phase") == "Failed":
            yield EXIT_CODE, "1"
