"""The openb trace (a production GPU cluster, public) as nodes and pods.

How a row is read is part of the experiment, so that every scheduler sees the same cluster: cpu in milli-cores, memory
in MiB, GPUs as the extended resource `openb.trace/gpu-milli`, the GPU models a pod accepts as a required node affinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.quantity import canonical
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.csv_rows import read_rows
from fairlead.sim.nodes import node_manifest

T = TypeVar("T")

GPU = "openb.trace/gpu-milli"
MODEL_LABEL = "openb.trace/gpu-model"
QOS_LABEL = "openb.trace/qos"
NODE_PODS = "110"
_NODE_COLUMNS = {"sn", "cpu_milli", "memory_mib", "gpu", "model"}
_POD_COLUMNS = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time"}


class Arrival(msgspec.Struct, frozen=True):
    """A pod, or a Job that makes some, and its time of creation, in seconds after the beginning of the trace."""

    at: float
    obj: Obj


def read_nodes(path: Path) -> list[Obj]:
    """The nodes of a node list, in its order. Raises ValueError for another file."""
    return list(_read(path, "node", _NODE_COLUMNS, _node))


def read_pods(path: Path) -> list[Arrival]:
    """The pods of a pod list, by time of creation. Raises ValueError for another file."""
    return sorted(_read(path, "pod", _POD_COLUMNS, _arrival), key=lambda arrival: arrival.at)


def _read(path: Path, what: str, columns: set[str], make: Callable[[Mapping[str, str]], T]) -> Iterator[T]:
    return read_rows(path, f"openb {what} list", lambda row, _: make(row), columns)


def _arrival(row: Mapping[str, str]) -> Arrival:
    try:
        at = float(row["creation_time"])
    except ValueError:
        at = math.nan
    if not 0 <= at < math.inf:
        raise ValueError(f"creation_time {row['creation_time']!r} is no time")
    return Arrival(at, _pod(row))


def _name(text: str) -> str:
    if problems := dns1123_subdomain(text):
        raise ValueError(f"{text!r} cannot be a name: {problems[0]}")
    return text


def _amount(text: str) -> str:
    if not text[:1].isdigit():
        raise ValueError(f"{text!r} is no amount")
    return canonical(text)


def _node(row: Mapping[str, str]) -> Obj:
    amounts = {
        "cpu": _amount(f"{row['cpu_milli']}m"),
        "memory": _amount(f"{row['memory_mib']}Mi"),
        "pods": NODE_PODS,
    }
    if gpus := int(row["gpu"] or 0):
        amounts[GPU] = _amount(str(1000 * gpus))
    return node_manifest(_name(row["sn"]), amounts, {MODEL_LABEL: row["model"]} if row["model"] else {})


def _pod(row: Mapping[str, str]) -> Obj:
    requests = {"cpu": _amount(f"{row['cpu_milli']}m"), "memory": _amount(f"{row['memory_mib']}Mi")}
    resources: Obj = {"requests": requests}
    if gpu := int(row["num_gpu"] or 0) * int(row["gpu_milli"] or 0):
        requests[GPU] = _amount(str(gpu))
        resources["limits"] = {GPU: requests[GPU]}
    spec: Obj = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "openb.trace/task", "resources": resources}],
    }
    if row["gpu_spec"]:
        spec["affinity"] = _affinity(row["gpu_spec"].split("|"))
    metadata: Obj = {"name": _name(row["name"]), "labels": {QOS_LABEL: row.get("qos", "")}}
    if annotations := dict(_behaviour(row)):
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _affinity(models: list[str]) -> Obj:
    expression = {"key": MODEL_LABEL, "operator": "In", "values": models}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _behaviour(row: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A pod lives as long as it did in the trace; one without an end stays."""
    deleted, scheduled = row.get("deletion_time"), row.get("scheduled_time")
    if not deleted or not scheduled:
        return
    lifetime = float(deleted) - float(scheduled)
    if lifetime > 0:
        yield LIFETIME_SECONDS, f"{lifetime:g}" if lifetime % 1 else str(int(lifetime))
        if row.get("pod_phase") == "Failed":
            yield EXIT_CODE, "1"
