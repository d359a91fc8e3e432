"""`fairlead why`: why a pod waits, why it is where it is, or why it is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from fairlead.api import builtin
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED
from fairlead.api.verbs import Api, ListQuery
from fairlead.arbitrator.explain import notes
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.cli.failures import ANSWER_SECONDS, Failure, WrongUsage, explained, parsing
from fairlead.cli.inputs import imported_objects, scheduling
from fairlead.cli.standalone import pod_key
from fairlead.client.http import HttpApi
from fairlead.client.informer import Informers
from fairlead.client.kubeconfig import Access, load
from fairlead.compose import restored
from fairlead.node.explain import NodeStory, node_story
from fairlead.node.throttling import Throttling, throttling_of
from fairlead.runtime import log_lines
from fairlead.runtime.loops import run
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.explain import Explanation, RefusalGroup, explain
from fairlead.study.asking import story
from fairlead.study.records import load as load_run
from fairlead.wording import counted

#: How long the nodes and pods of a cluster may take to arrive.
_READ_SECONDS = 60.0
#: Names that are listed of a group, and nodes whose scores are shown.
_NAMED, _SCORED = 5, 5
#: Events that say why a pod came to its end.
_ENDS = frozenset({"Reclaimed", "Preempted", "Evicted", "TaintManagerEviction"})
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Why a pod waits, is where it is, or is gone.")
@click.argument("pod", metavar="[NAMESPACE/]POD")
@click.option("-n", "--namespace", help="The pod's namespace.  [default: the context's, or default]")
@click.option("--kubeconfig", type=_FILE, envvar="KUBECONFIG", help="Which cluster to ask.")
@click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
@click.option(
    "--dump",
    "dumps",
    type=_FILE,
    multiple=True,
    help="Ask a dump instead (kubectl get nodes,pods,... -A -o yaml). May be repeated.",
)
@click.option("--in", "run_name", metavar="RUN", help="Ask a run that fairlead simulate kept, by name or file.")
@click.option("--variant", default="", help="Of that run, one variant alone.")
@click.option("--scheduler-config", type=_FILE, help="How the scheduler decides there: a KubeSchedulerConfiguration.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def why(
    pod: str,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str,
    dumps: tuple[Path, ...],
    run_name: str | None,
    variant: str,
    scheduler_config: Path | None,
    output: str,
) -> None:
    """Tell, for each group of nodes, what refuses the pod and what would help; and for a pod that has a node, how the
    scores came about if it were placed now. Where an arbitrator is at work, tell also what the share of its namespace
    has to do with it; and of a pod that is gone, what was said of its end.

    Nothing is changed anywhere: the decision is taken again here, over a copy of the cluster.

    \b
    Example:
      fairlead why web-7 -n shop      # or shop/web-7
      kubectl get nodes,pods,namespaces -A -o yaml > dump.yaml && fairlead why web-7 -n shop --dump dump.yaml
      fairlead why shop/web-7 --in run-7c1e    # in a run of fairlead simulate
    """
    log_lines.configure(logging.ERROR)
    if run_name is not None:
        _ask_run(run_name, pod_key(pod, namespace, "default"), variant, output)
        return
    with parsing():
        configuration = scheduling(scheduler_config)
        objects = list(imported_objects(dumps))
        if not dumps and kubeconfig is None:
            raise WrongUsage("which cluster? Name a kubeconfig with --kubeconfig, or a file with --dump")
        access = load(kubeconfig, context) if kubeconfig and not dumps else None
        key = pod_key(pod, namespace, access.namespace if access else "default")
    with explained(dumps):
        explanation = run(_explained(objects, access, configuration, key))
    if explanation is None:
        raise Failure(f'pods "{pod}" not found in namespace {key.partition("/")[0]}')
    click.echo(
        msgspec.json.encode(asdict(explanation)).decode() if output == "json" else "\n".join(_lines(explanation))
    )


def _ask_run(name: str, key: str, variant: str, output: str) -> None:
    """What became of the pod in a run that was kept."""
    with parsing():
        lines = story(load_run(name), key, variant)
    click.echo(msgspec.json.encode({"pod": key, "story": lines}).decode() if output == "json" else "\n".join(lines))


async def _explained(
    objects: list[Obj], access: Access | None, configuration: Configuration | None, key: str
) -> Explanation | None:
    namespace, _, name = key.partition("/")
    async with _cluster(objects, access) as api:
        try:
            manifest = (await api.get(builtin.PODS, name, namespace)).obj()
        except NotFound:
            return await _gone(api, key)
        story = await _node_story(api, manifest)
        if story is not None and manifest["status"].get("phase") in FINISHED:
            return Explanation(key, story.headline, notes=list(story.notes))
        informers = Informers(api)
        model = ClusterModel(informers, configuration)
        listening = asyncio.create_task(informers.run())
        try:
            await _synced(model)
            explanation = explain(model, key)
            pod = model.pod(key)
            if explanation is None or pod is None:
                return await _gone(api, key)
            about_share = notes(pod, await _allocations(api))
            if about_share and not pod.spec.node_name:
                explanation.headline = f"{key} waits for the share of its namespace"
            explanation.notes[:0] = about_share
            if story is not None:
                explanation.notes[:0] = [story.headline, *story.notes]
            return explanation
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def _synced(model: ClusterModel) -> None:
    """Raises Failure where not everything can be read: informers try for ever."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await model.synced()
    except TimeoutError:
        raise Failure(
            f"not all of the cluster could be read in {_READ_SECONDS:.0f} s: may you list nodes, pods and volumes?"
        ) from None


async def _allocations(api: Api) -> list[Allocation]:
    try:
        return [item.view(Allocation) for item in (await api.list(ALLOCATIONS)).items]
    except NotFound:
        return []  # no arbitrator has been here


async def _node_story(api: Api, pod: Obj) -> NodeStory | None:
    """What the pod's node did to it."""
    meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
    if not node:
        return None
    of_pod = await _events(api, f"involvedObject.kind=Pod,involvedObject.name={meta['name']}", meta["namespace"])
    of_node = await _events(api, f"involvedObject.kind=Node,involvedObject.name={node}", "")
    query = ListQuery(fields=f"spec.nodeName={node},status.phase=Failed")
    failed = [found.obj() for found in (await api.list(builtin.PODS, meta["namespace"], query)).items]
    return node_story(pod, of_pod, of_node, failed, await _throttling(api, pod))


async def _throttling(api: Api, pod: Obj) -> Mapping[str, Throttling]:
    """What its kubelet shows of it; nothing where there is none, or it may not be asked."""
    if pod["status"].get("phase") != "Running":
        return {}
    try:
        text = await api.get(builtin.NODES, pod["spec"]["nodeName"], "", "proxy/metrics/cadvisor")
    except ApiError:
        return {}
    return throttling_of(pod, text.raw.decode(errors="replace"))


async def _events(api: Api, fields: str, namespace: str) -> list[Obj]:
    """The oldest first."""
    found = [event.obj() for event in (await api.list(builtin.EVENTS, namespace, ListQuery(fields=fields))).items]
    return sorted(found, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


async def _gone(api: Api, key: str) -> Explanation | None:
    """What the events say of a pod that is not there any more; None if they know nothing of it."""
    namespace, _, name = key.partition("/")
    found = await _events(api, f"involvedObject.kind=Pod,involvedObject.name={name}", namespace)
    if not found:
        return None
    messages = [f"{event['reason']}: {event['message']}" for event in found]
    why = next((text for text in reversed(messages) if text.split(":")[0] in _ENDS), "")
    headline = f"{key} is gone" + (f", {why.partition(': ')[2]}" if why else "")
    return Explanation(key, headline, notes=[text for text in messages[-_NAMED:] if text != why])


@asynccontextmanager
async def _cluster(objects: list[Obj], access: Access | None) -> AsyncIterator[Api]:
    """The cluster that is asked: a live one, or what a dump says."""
    if access is not None:
        async with HttpApi(access, user_agent="fairlead-why", connect_seconds=ANSWER_SECONDS) as api:
            yield api
    else:
        async with restored(objects) as api:
            yield api


def _lines(explanation: Explanation) -> list[str]:
    lines = [explanation.headline]
    lines += [f"  note: {note}" for note in explanation.notes]
    if explanation.preemption:
        lines += ["", f"  preemption: {explanation.preemption}"]
    for group in explanation.groups:
        lines += ["", f"  {counted(len(group.nodes), 'node')}  {_names(group)}"]
        lines.append(f"    {group.plugin}: {', '.join(group.reasons)}")
        if group.helps:
            lines.append(f"    would help: {group.helps}")
    if explanation.scored:
        lines += ["", f"  {counted(len(explanation.scored), 'node')} would do" + _best(len(explanation.scored))]
        for node in explanation.scored[:_SCORED]:
            parts = " + ".join(
                f"{plugin} {score}" for plugin, score in sorted(node.scores.items(), key=lambda item: -item[1])
            )
            lines.append(f"    {node.total:>5}  {node.node:<20} {parts}")
    return lines


def _best(count: int) -> str:
    return f", the best {_SCORED}:" if count > _SCORED else ":"


def _names(group: RefusalGroup) -> str:
    more = len(group.nodes) - _NAMED
    return ", ".join(group.nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
