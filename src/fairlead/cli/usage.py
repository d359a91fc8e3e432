"""`fairlead usage`: what simulated pods and nodes use, set by hand. Annotations keep it, so that kubectl sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import NotFound
from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, PatchType
from fairlead.cli.failures import ANSWER_SECONDS, Failure, WrongUsage, explained, parsing
from fairlead.cli.standalone import access_of, pod_key, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime.loops import run
from fairlead.sim.usage.declarations import Declaration
from fairlead.sim.usage.declared import node_usage, pod_usage
from fairlead.sim.usage.measures import VOLUME
from fairlead.sim.usage.objects import USAGE_PROFILES, UsageProfile, profile_of
from fairlead.sim.usage.profiles import Profiles
from fairlead.sim.usage.resolving import PREFIX

_NODE: Final = ("node", "nodes", "no")
_COLUMNS: Final = ("CONTAINER", "MEASURE", "USAGE", "FROM")


class Target(msgspec.Struct, frozen=True):
    """A pod or a node."""

    resource: Resource
    name: str
    namespace: str = ""


class UsageRow(msgspec.Struct, frozen=True):
    """One line of `usage show`; node and volumes have no container."""

    container: str
    measure: str
    usage: str
    source: str


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """How each of the commands finds its cluster."""
    for option in (
        which_cluster_options(),
        click.option("-n", "--namespace", help="Of the pod.  [default: that of the context]"),
        click.argument("target", metavar="POD|node/NAME"),
    ):
        command = option(command)
    return command


_CONTAINER: Final = click.option("-c", "--container", default="", help="This container alone.  [default: all]")


@click.group(short_help="What simulated pods and nodes use.")
def usage() -> None:
    """What pods on simulated nodes use, and what these nodes use outside their pods."""


@usage.command("set", short_help="Declare what a pod or a node uses from now on.")
@_options
@click.argument("settings", nargs=-1, required=True, metavar="MEASURE=USAGE...")
@_CONTAINER
def set_(
    target: str,
    settings: tuple[str, ...],
    namespace: str | None,
    container: str,
    kubeconfig: tuple[Path, ...],
    context: str,
) -> None:
    """Declare what a pod, or a node outside its pods, uses from now on. A usage is an amount (300Mi, 250m, 60% of the
    request), or how it changes: ramp, leak, burst, wave, noise, trace. docs/usage.md lists measures and forms.

    \b
    Example:
      fairlead usage set web-7 memory=1Gi cpu=250m
      fairlead usage set web-7 -c app 'memory=leak(10Mi/s, from=20Mi)'
      fairlead usage set node/node-1 memory=2Gi
    """
    with parsing():
        access = access_of(kubeconfig, context)
        found = _target(target, namespace, access, container)
        annotations = dict(_annotation(setting, container) for setting in settings)
    with explained():
        run(_set(access, found, annotations))
    click.echo(f"{found.resource.singular}/{found.name} uses {', '.join(settings)}")


@usage.command(short_help="What a pod or a node uses, and who says so.")
@_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(target: str, namespace: str | None, kubeconfig: tuple[Path, ...], context: str, output: str) -> None:
    """Print each measure of a pod or a node, its usage, and where that is declared.

    \b
    Example:
      fairlead usage show web-7 -n shop
    """
    with parsing():
        access = access_of(kubeconfig, context)
        found = _target(target, namespace, access)
    with explained():
        rows, problems = run(_shown(access, found))
    if output == "json":
        click.echo(msgspec.json.encode(rows).decode())
        return
    cells = [_COLUMNS, *((row.container or "-", row.measure, row.usage, row.source) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(_COLUMNS))]
    for row in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for problem in problems:
        click.echo(f"ignored: {problem}", err=True)


@usage.command(short_help="Take back what was declared.")
@_options
@click.argument("measures", nargs=-1, metavar="[MEASURE]...")
@_CONTAINER
def clear(
    target: str,
    measures: tuple[str, ...],
    namespace: str | None,
    container: str,
    kubeconfig: tuple[Path, ...],
    context: str,
) -> None:
    """Take back what annotations declare of these measures; of all of them if none is named. Profiles, images and
    defaults apply again.

    \b
    Example:
      fairlead usage clear web-7 memory
    """
    with parsing():
        access = access_of(kubeconfig, context)
        found = _target(target, namespace, access, container)
    with explained():
        count = run(_clear(access, found, measures, container))
    click.echo(f"{found.resource.singular}/{found.name}: {count} taken back")


def _target(text: str, namespace: str | None, access: Access, container: str = "") -> Target:
    kind, slash, name = text.partition("/")
    if slash and kind in _NODE and name and "/" not in name:
        if container:
            raise WrongUsage("a node has no containers: leave --container out")
        return Target(NODES, name)
    namespace, _, name = pod_key(text, namespace, access.namespace).partition("/")
    return Target(PODS, name, namespace)


def _annotation(setting: str, container: str) -> tuple[str, str]:
    measure, equals, text = setting.partition("=")
    if not equals or not measure or "(" in measure:
        raise WrongUsage(f"{setting!r} is no setting: write MEASURE=USAGE, such as memory=300Mi")
    return _key(measure, container), text


def _key(measure: str, container: str) -> str:
    return f"{container}.{PREFIX}{measure}" if container else f"{PREFIX}{measure}"


async def _set(access: Access, target: Target, annotations: Mapping[str, str]) -> None:
    async with _api(access) as api:
        found = await _found(api, target)
        meta = msgspec.structs.replace(found.metadata, annotations={**found.metadata.annotations, **annotations})
        for problem in _problems(msgspec.structs.replace(found, metadata=meta), await _profiles(api, target)):
            if any(problem.startswith(f"annotation {key}: ") for key in annotations):
                raise WrongUsage(problem.removeprefix("annotation "))
        await _annotate(api, target, annotations)


async def _shown(access: Access, target: Target) -> tuple[list[UsageRow], tuple[str, ...]]:
    async with _api(access) as api:
        found, profiles = await _found(api, target), await _profiles(api, target)
    if isinstance(found, Node):
        of_node = node_usage(found)
        return _rows("", of_node.measures.items()), of_node.problems
    of_pod = pod_usage(found, profiles)
    rows = [row for name, declarations in of_pod.containers.items() for row in _rows(name, declarations.items())]
    volumes = [(VOLUME + name, declaration) for name, declaration in of_pod.volumes.items()]
    return rows + _rows("", volumes), of_pod.problems


async def _clear(access: Access, target: Target, measures: tuple[str, ...], container: str) -> int:
    async with _api(access) as api:
        known = (await _found(api, target)).metadata.annotations
        if measures:
            keys = [key for measure in measures if (key := _key(measure, container)) in known]
        else:
            keys = [key for key in known if key.startswith(_key("", container)) or (not container and PREFIX in key)]
        if keys:
            await _annotate(api, target, dict.fromkeys(keys))
        return len(keys)


def _api(access: Access) -> HttpApi:
    return HttpApi(access, user_agent="fairlead-usage", connect_seconds=ANSWER_SECONDS)


async def _found(api: Api, target: Target) -> Pod | Node:
    try:
        entry = await api.get(target.resource, target.name, target.namespace)
    except NotFound as error:
        raise Failure(error.message) from None
    return entry.view(Node) if target.resource is NODES else entry.view(Pod)


async def _profiles(api: Api, target: Target) -> Profiles:
    profiles = Profiles()
    if target.resource is PODS:
        try:
            listing = await api.list(USAGE_PROFILES, target.namespace)
        except NotFound:
            return profiles  # a cluster without simulated nodes
        for entry in listing.items:
            profiles.put(profile_of(entry.view(UsageProfile))[0])
    return profiles


def _problems(found: Pod | Node, profiles: Profiles) -> tuple[str, ...]:
    return node_usage(found).problems if isinstance(found, Node) else pod_usage(found, profiles).problems


async def _annotate(api: Api, target: Target, annotations: Mapping[str, str | None]) -> None:
    patch = {"metadata": {"annotations": dict(annotations)}}
    await api.patch(target.resource, target.name, target.namespace, patch, PatchType.MERGE)


def _rows(container: str, declarations: Iterable[tuple[Any, Declaration]]) -> list[UsageRow]:
    return [UsageRow(container, str(measure), found.text, found.source) for measure, found in declarations]
