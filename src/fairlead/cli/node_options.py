"""Options that say how the kubelets of simulated nodes are configured: files for groups of nodes, and kubelet's flags.

A flag is handed on as it was written, so that a kubelet's own parser reads it and its own words refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.api.objects import Obj
from fairlead.api.selector_text import parse as parse_selector
from fairlead.cli.failures import WrongUsage
from fairlead.golang import yaml as goyaml
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.flags import LEGACY, parse_flags
from fairlead.node.configuration.settings import FLAGS
from fairlead.sim.node_settings import NodeConfigurations, NodeGroup

Command = TypeVar("Command", bound=Callable[..., Any])

#: The flags of a kubelet that these commands take; what else it can be told stands in a file.
KUBELET_FLAGS: Final = {
    "kube-reserved": "For Kubernetes' daemons: cpu=100m,memory=1Gi,ephemeral-storage=1Gi,pid=100.",
    "system-reserved": "The same for the system's daemons.",
    "eviction-hard": "Evict pods at once: memory.available<500Mi,nodefs.available<10%.",
    "eviction-soft": "Evict pods after a grace period.",
    "eviction-soft-grace-period": "How long each: memory.available=1m30s.",
    "eviction-minimum-reclaim": "How much more to free: memory.available=0Mi.",
    "eviction-pressure-transition-period": "How long pressure is shown after it has gone.",
    "eviction-max-pod-grace-period": "The longest that a pod may take to stop, in seconds.",
    "kernel-memcg-notification": "Notice thresholds at once (cgroup v1).",
    "qos-reserved": "Keep memory requested by higher classes from lower ones: memory=50%.",
    "enforce-node-allocatable": "What is limited: pods,system-reserved,kube-reserved; none.",
    "kube-reserved-cgroup": "Where Kubernetes' daemons are.",
    "system-reserved-cgroup": "Where the system's daemons are.",
    "runtime-cgroups": "Where the container runtime is.",
    "cpu-cfs-quota": "Whether CPU limits are enforced.",
    "max-pods": "Pods that fit on each node.",
    "feature-gates": "QOSReserved=true,MemoryQoS=true.",
}
_STATED: Final = "fairlead.kubelet-flags"


class NodesCommand(click.Command):
    """A command that refuses a kubelet's flags behind a single dash in the kubelet's words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for argument in args:
            if argument.startswith("-") and argument[1:].partition("=")[0] in (*FLAGS, *LEGACY):
                try:
                    parse_flags([argument])
                except StartupError as refusal:
                    raise WrongUsage(f"{refusal}; write -{argument}") from None
        return super().parse_args(ctx, args)


def kubelet_options(command: Command) -> Command:
    """`--node-config`, and a kubelet's flags; `node_configurations` has what they say."""
    for flag in sorted(LEGACY):
        command = _flag(flag, "", is_hidden=True)(command)
    for flag, meaning in reversed(KUBELET_FLAGS.items()):
        command = _flag(flag, meaning)(command)
    option = click.option(
        "--node-config",
        multiple=True,
        metavar="[SELECTOR:]FILE",
        help="A KubeletConfiguration of simulated nodes: of all, or of those with certain labels (pool=batch:FILE). "
        "May be repeated; the first that fits counts. The flags below win over files.",
    )
    return option(command)


def _flag(flag: str, meaning: str, *, is_hidden: bool = False) -> Callable[[Command], Command]:
    takes_nothing = flag in FLAGS and FLAGS[flag].type.bare_flag
    return click.option(
        f"--{flag}",
        multiple=True,
        is_flag=False,
        flag_value=takes_nothing or ("" if is_hidden else None),
        metavar="[=BOOL]" if takes_nothing else "VALUE",
        help=f"As a kubelet's. {meaning}",
        hidden=is_hidden,
        expose_value=False,
        callback=_collect,
    )


def _collect(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    stated: list[str] = ctx.meta.setdefault(_STATED, [])
    stated += [f"{parameter.opts[0]}={value}" for value in values]


def kubelet_flags() -> list[str]:
    """The kubelet's flags of this command, as they were written."""
    return list(click.get_current_context().meta.get(_STATED, ()))


def node_configurations(node_config: tuple[str, ...], node_pods: int | None) -> NodeConfigurations:
    """What the options say. `--node-pods` is another name of the kubelet's `--max-pods`."""
    flags = kubelet_flags()
    if node_pods is not None:
        if any(flag.startswith("--max-pods=") for flag in flags):
            raise WrongUsage("--node-pods and --max-pods say the same: leave out one of them")
        flags.append(f"--max-pods={node_pods}")
    groups = [_group(text) for text in node_config]
    if sum(group.selector is None for group in groups) > 1:
        raise WrongUsage("--node-config: two files are for all nodes; say which nodes, as in pool=batch:FILE")
    return NodeConfigurations(groups, flags)


def check_nodes(configurations: NodeConfigurations, nodes: Sequence[Obj]) -> None:
    """Refuses in the kubelet's words what its kubelets would refuse, and warns of what does nothing."""
    try:
        warnings = configurations.check(nodes)
    except StartupError as refusal:
        raise refused(refusal) from None
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def refused(refusal: StartupError) -> WrongUsage:
    return WrongUsage(f"{refusal}; {refusal.hint}" if refusal.hint else str(refusal))


def kubelet_configuration(file: Path) -> Obj:
    """ValueError for a file that holds none."""
    document = next(goyaml.strict_documents(file.read_bytes()), None)
    if not isinstance(document, dict):
        raise ValueError(f"{file}: not a KubeletConfiguration")
    return document


def _group(text: str) -> NodeGroup:
    """`FILE`, or `SELECTOR:FILE` where no file has that name."""
    selector, has_selector, file = text.partition(":")
    if not has_selector or Path(text).exists():
        return NodeGroup(kubelet_configuration(Path(text)), text)
    try:
        labels = parse_selector(selector)
    except ValueError as problem:
        raise ValueError(f"--node-config {text}: {problem}") from None
    return NodeGroup(kubelet_configuration(Path(file)), file, labels)
