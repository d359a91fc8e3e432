"""What a cluster in a test or notebook can be told: the keywords, and the settings that they mean.

They are those of `fairlead up`, in Python's words, and the same for every way to have a cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from fairlead.api.objects import Obj
from fairlead.compose import COMPONENTS, EVICT_FIRST, REFUSE, Settings
from fairlead.node.configuration.errors import StartupError
from fairlead.scheduler.configuration import load
from fairlead.server.admission.chain import check_choice
from fairlead.server.registry.restore import Restored
from fairlead.sim import manifests, openb
from fairlead.sim.node_settings import NodeConfigurations, NodeGroup
from fairlead.sim.nodes import NodeShape, kubelet_nodes
from fairlead.study.stand_ins import stand_ins

#: Objects: one, several, the name of a file, or YAML (a text of more than one line).
Source: TypeAlias = Obj | Sequence[Obj] | Path | str

DEFAULT_NODES = 3


class ClusterOptions(TypedDict, total=False):
    """The keywords of `cluster`, `virtual_cluster`, `simulate` and the marker `fairlead`."""

    #: How many simulated nodes, or which: manifests, or an openb node list (.csv). Default: those imported, else 3.
    nodes: int | Source
    node_cpu: str | int
    node_memory: str | int
    #: A KubeletConfiguration that all simulated nodes run with.
    node_config: Mapping[str, Any]
    #: What is there at the start, as a dump of a cluster has it, with its status.
    imported: Source
    #: A KubeSchedulerConfiguration.
    scheduler_config: Mapping[str, Any]
    arbitrator: bool
    #: With an arbitrator, what nodes do with pods of namespaces that use too much: `refuse`, `evict-first`.
    overused_namespaces: Collection[str]
    #: Which parts run: some of api, controllers, scheduler, nodes. The API server always runs.
    components: Collection[str]
    enable_admission_plugins: Collection[str]
    disable_admission_plugins: Collection[str]


def settings_of(options: ClusterOptions) -> Settings:
    """Raises ValueError for options that cannot be, TypeError for unknown ones, OSError for a file that is missing."""
    if unknown := options.keys() - ClusterOptions.__annotations__.keys():
        known = ", ".join(ClusterOptions.__annotations__)
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; known are {known}")
    imported = objects_of(options["imported"]) if "imported" in options else []
    nodes = _nodes(options, imported)
    has_arbitrator = options.get("arbitrator", False)
    overused = _chosen("overused_namespaces", options.get("overused_namespaces", ()), (REFUSE, EVICT_FIRST))
    if overused and not has_arbitrator:
        raise ValueError("overused_namespaces needs arbitrator=True, which says what each namespace deserves")
    enabled, disabled = (
        tuple(names)
        for names in (options.get("enable_admission_plugins", ()), options.get("disable_admission_plugins", ()))
    )
    check_choice(enabled, disabled)
    config = _document(options, "scheduler_config")
    return Settings(
        port=0,
        nodes=tuple(nodes),
        imported=tuple(imported),
        on_restored=_warn_of_skipped,
        components=_chosen("components", options.get("components", COMPONENTS), COMPONENTS),
        enabled_admission=enabled,
        disabled_admission=disabled,
        scheduling=None if config is None else load(config),
        arbitrator=has_arbitrator,
        overused_namespaces=overused,
        configurations=_configurations(_document(options, "node_config"), nodes),
    )


def virtual_settings_of(options: ClusterOptions) -> Settings:
    """The same for a cluster in virtual time."""
    settings = settings_of(options)
    if settings.scheduling is not None and settings.scheduling.settings.extenders:
        raise ValueError("scheduler_config: extenders answer in real time, so virtual time cannot ask them")
    return settings


def objects_of(source: Source) -> list[Obj]:
    """The objects, lists taken apart, without the fields that belong to the cluster where they were."""
    if isinstance(source, str) and "\n" in source:
        found = [*manifests.objects_in(source.encode())]
    elif isinstance(source, str | Path):
        found = [obj for file in manifests.files_of(Path(source)) for obj in manifests.read(existing(file))]
    else:
        if not isinstance(source, Iterable):
            what = type(source).__name__
            raise TypeError(f"objects are a mapping, several, YAML, or the name of a file, and this is a {what}")
        found = [*manifests.objects(source)]
    return [manifests.portable(obj) for obj in found]


def existing(path: Path) -> Path:
    """The path of a file that is there. Raises FileNotFoundError, which says where it was looked for."""
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {path} (looked in {Path.cwd()}); YAML itself is told from a file's name by its lines"
        )
    return path


def _nodes(options: ClusterOptions, imported: Sequence[Obj]) -> list[Obj]:
    asked = options.get("nodes")
    if asked is None or isinstance(asked, int):
        dumped = list(filter(manifests.is_node, imported))
        if dumped and asked is not None:
            raise ValueError(f"nodes={asked}, and what is imported has {len(dumped)} nodes: leave out one of them")
        if asked is not None and asked < 0:
            raise ValueError(f"nodes={asked}: there cannot be fewer than none")
        shape = NodeShape(str(options.get("node_cpu", "4")), str(options.get("node_memory", "16Gi")))
        if not dumped and asked is None:
            dumped = stand_ins(imported, shape)
        return dumped or kubelet_nodes(DEFAULT_NODES if asked is None else asked, shape)
    if "node_cpu" in options or "node_memory" in options:
        raise ValueError("node_cpu and node_memory are for a number of nodes; manifests say it themselves")
    if isinstance(asked, str | Path) and Path(asked).suffix == ".csv":
        return openb.read_nodes(existing(Path(asked)))
    found = list(filter(manifests.is_node, objects_of(asked)))
    if not found:
        raise ValueError("nodes: there is no Node among these objects")
    return found


def _configurations(document: Mapping[str, Any] | None, nodes: Sequence[Obj]) -> NodeConfigurations:
    configurations = NodeConfigurations([] if document is None else [NodeGroup(dict(document), "node_config")])
    try:
        told = configurations.check(nodes)
    except StartupError as refusal:
        raise ValueError(f"node_config: {refusal}") from None
    for warning in told:
        warnings.warn(f"node_config: {warning}", stacklevel=2)
    return configurations


def _document(options: ClusterOptions, option: Literal["node_config", "scheduler_config"]) -> Mapping[str, Any] | None:
    found = options.get(option)
    if found is not None and not isinstance(found, Mapping):
        raise TypeError(f"{option} is a mapping, what the file has, and not {found!r}")
    return found


def _warn_of_skipped(restored: Restored) -> None:
    if restored.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(restored.skipped.items()))
        warnings.warn(f"imported: skipped {kinds}: not served here", stacklevel=2)


def _chosen(option: str, names: Collection[str], known: Collection[str]) -> frozenset[str]:
    names = [names] if isinstance(names, str) else names
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"{option}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    return frozenset(names)
