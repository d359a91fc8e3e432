"""Files that the commands read: node lists, pod lists, dumps of clusters. A ValueError names the file and the
object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj, metadata
from fairlead.golang import yaml as goyaml
from fairlead.runtime.memory import loading
from fairlead.server.admission.chain import PLUGIN_NAMES
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.admission.configuration import load as load_admission_configuration
from fairlead.server.assembly import builtin_catalogue
from fairlead.server.registry.restore import Restored, Unrestorable, check
from fairlead.sim import manifests, openb
from fairlead.sim.dump_places import place_of
from fairlead.sim.nodes import NodeShape, kubelet_nodes
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads import generators
from fairlead.sim.workloads.mapping import KIND as MAPPING
from fairlead.sim.workloads.mapping import ArrivalMapping, read_mapped, read_mapping
from fairlead.study.stand_ins import stand_ins
from fairlead.wording import counted

#: The default number of nodes.
DEFAULT_NODES = 3
#: How many kinds of a dump are listed by name.
_LISTED = 6


def node_objects(path: Path | None, imported: Sequence[Obj], count: int | None, shape: NodeShape) -> list[Obj]:
    """The nodes of a file, those of a dump or that its pods are on, or `count` nodes of one shape. ValueError if two of
    these are given.
    """
    if path is None:
        nodes = list(filter(manifests.is_node, imported))
        if nodes and count is not None:
            raise ValueError(f"--nodes asks for {count}, and what is imported has {len(nodes)}: leave out one of them")
        if not nodes and count is None:
            nodes = stand_ins(imported, shape)
        return nodes or kubelet_nodes(DEFAULT_NODES if count is None else count, shape)
    if count is not None:
        raise ValueError(f"--nodes asks for {count}, and {path} says which there are: leave out one of them")
    if path.suffix == ".csv":
        nodes = openb.read_nodes(path)
    else:
        nodes = [manifests.portable(obj) for obj in manifests.read(path) if manifests.is_node(obj)]
    if not nodes:
        raise ValueError(f"{path} holds no Node")
    _check(path, nodes)
    _check_names(path, nodes)
    return nodes


def arrivals(path: Path, mapping: Path | None = None) -> list[Arrival]:
    """The pods of a file and when they are created; those of a manifest all at once.

    `mapping` says what the columns of a table mean, other than those of openb.
    """
    if path.suffix == ".csv":
        if mapping is None:
            return openb.read_pods(path)
        return read_mapped(path, _mapping(mapping))
    if mapping is not None:
        raise ValueError(f"{mapping} is for tables (CSV), and {path} is none")
    found: list[Arrival] = []
    pods = []
    for document in manifests.read(path):
        if document["kind"] == generators.KIND:
            try:
                found += generators.generated(document)
            except ValueError as problem:
                raise ValueError(f"{path}: {problem}") from None
        else:
            pods.append(manifests.portable(document))
    for obj in pods:
        if obj["kind"] != "Pod":
            what = " ".join(filter(None, (obj["kind"], metadata(obj).get("name"))))
            raise ValueError(f"{path} holds {what}, but only pods arrive: load others with --import")
    if not pods and not found:
        raise ValueError(f"{path} holds no Pod")
    _check(path, pods)
    return [Arrival(0.0, pod) for pod in pods] + found


def _mapping(path: Path) -> ArrivalMapping:
    try:
        document = next(goyaml.strict_documents(path.read_bytes()), None)
        if not isinstance(document, dict) or document.get("kind") != MAPPING:
            raise ValueError(f"it holds no {MAPPING}")
        return read_mapping(document)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def namespaces_of(coming: Iterable[Arrival], imported: Iterable[Obj]) -> list[Obj]:
    """The namespaces of pods that arrive, as far as nothing else makes them."""
    there = {str(metadata(obj).get("name")) for obj in imported if obj["kind"] == "Namespace"}
    there |= {"default", "kube-system"}
    names = {metadata(arrival.obj).get("namespace", "default") for arrival in coming}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names - there)]


def imported_objects(paths: Iterable[Path]) -> list[Obj]:
    """Every object of the dumps, without the fields that belong to their old cluster."""
    with loading():
        return [_readable(path, manifests.portable(obj)) for path in paths for obj in manifests.read(path)]


def _readable(path: Path, obj: Obj) -> Obj:
    """Nodes are looked at before the server has seen them. Amounts may be numbers, and whatever else is no text is for
    the server to refuse.
    """
    if manifests.is_node(obj) and not _is_of_texts(obj):
        _check(path, [obj])
        for amounts in (obj["status"].get("capacity") or {}, obj["status"].get("allocatable") or {}):
            amounts |= {name: str(amount or 0) for name, amount in amounts.items()}
    return obj


def _is_of_texts(node: Obj) -> bool:
    meta, status = metadata(node), node.get("status") or {}
    if not isinstance(status, dict) or not isinstance(meta.get("name"), str):
        return False
    read = [values or {} for values in map(meta.get, ("labels", "annotations"))]
    read += [values or {} for values in map(status.get, ("capacity", "allocatable"))]
    return all(isinstance(values, dict) and all(isinstance(text, str) for text in values.values()) for values in read)


def import_summary(found: Restored) -> list[str]:
    """The result of an import in lines of text: what was loaded, and what was skipped."""
    if not found.stored and not found.skipped:
        return []
    lines = [f"loaded {_counts(found.stored)}" if found.stored else "loaded nothing"]
    if found.skipped:
        lines.append(f"skipped {_counts(found.skipped)}: not served here")
    return lines


def _counts(kinds: Counter[str]) -> str:
    """The most frequent kinds by name, and the number of other objects."""
    parts = [f"{count:,} {kind}" for kind, count in kinds.most_common(_LISTED)]
    if rest := kinds.total() - sum(count for _, count in kinds.most_common(_LISTED)):
        parts.append(counted(rest, "other"))
    return ", ".join(parts)


def _check(path: Path, objects: Iterable[Obj]) -> None:
    """Raises ValueError for an object that the server would refuse."""
    catalogue = builtin_catalogue()
    for obj in objects:
        known = copied(obj)
        meta = metadata(known)
        if not meta.get("name") and isinstance(prefix := meta.get("generateName"), str) and prefix:
            meta["name"] = f"{prefix}1"
        try:
            check(catalogue, known)
        except Unrestorable as error:
            raise ValueError(f"{place_of(obj, [path])}: {error}") from None


def _check_names(path: Path, nodes: Iterable[Obj]) -> None:
    known: set[str] = set()
    for node in nodes:
        if (name := metadata(node).get("name")) is None:
            raise ValueError(f"{path}: a Node has no name")
        if name in known:
            raise ValueError(f"{path} holds two nodes of the name {name!r}")
        known.add(name)


def admission_configuration(file: Path | None) -> AdmissionConfiguration:
    """Reads an AdmissionConfiguration and the files that it names. Raises ValueError if one is invalid."""
    return UNCONFIGURED if file is None else load_admission_configuration(file, PLUGIN_NAMES)
