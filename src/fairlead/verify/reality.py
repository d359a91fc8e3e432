"""The workload on this machine: a cluster in this process, with the nested machine as its one real node."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fairlead.agent.agent import AgentSettings, NodeAgent
from fairlead.agent.cgroups.usage import throttling_of, usage_of
from fairlead.agent.images.store import ImageStore
from fairlead.agent.network_choice import loopback_only
from fairlead.agent.node_object import NodeIdentity
from fairlead.agent.runtime_choice import conmon
from fairlead.agent.stored_images import StoredImages
from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.qos import qos_class
from fairlead.api.users import node_user
from fairlead.api.verbs import Api
from fairlead.compose import Settings, simulation
from fairlead.node.cgroups.names import CgroupDriver, container_path, kubepods, pod_cgroup, qos_cgroup
from fairlead.node.eviction.manager import MONITORING_SECONDS
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run
from fairlead.server.codec.body_types import body_type_of
from fairlead.verify.facts import NODE
from fairlead.verify.happenings import ContainerKey, ContainerRun, Counters, Course, Observer
from fairlead.verify.images import PlayedImages
from fairlead.verify.nested import Nested
from fairlead.verify.objects import USAGE_PROFILE, create_all, namespace_of
from fairlead.verify.plan import Played
from fairlead.verify.workload import AFTER_A_LOOK_SECONDS, Workload, containers_of, is_ordinary, kubelet_document

#: What a node says of itself that a prediction has said already.
_EXPECTED: Final = "pods of a verified workload have no network"
_READY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02
#: Even on a machine that is busy.
_STARTED_IN_TEN_SECONDS: Final = 16


class NeverReady(Exception):
    """The node did not get ready; the text says what it said last."""


def happen(
    workload: Workload,
    machine: Nested,
    plans: Mapping[ContainerKey, Played],
    seconds: float,
    images: Path,
    player: Path,
) -> Course:
    """`images` is the root of this machine's image store, for ordinary containers."""
    made = PlayedImages(machine.folder / "played", StoredImages(ImageStore(images)))
    made.give(player)
    return run(_happen(workload, machine, plans, seconds, made))


async def _happen(
    workload: Workload, machine: Nested, plans: Mapping[ContainerKey, Played], seconds: float, images: PlayedImages
) -> Course:
    settings = Settings(port=0, components=frozenset(("api", "controllers", "scheduler")))
    async with simulation(settings) as (api, _):
        agent = NodeAgent(
            api.registry.as_user(node_user(NODE)),
            AgentSettings(
                identity=NodeIdentity(name=NODE, ip="127.0.0.1"),
                root=machine.root,
                document={
                    "cgroupRoot": machine.cgroup,
                    "imageGCHighThresholdPercent": 100,
                    "healthzPort": 0,
                    **kubelet_document(workload),
                },
                within=machine.cgroup,
                normalise_pod=body_type_of(PODS).normalise,
            ),
            conmon(images),
            loopback_only(_EXPECTED),
        )
        observer = Observer(api)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(agent.run()), group.create_task(observer.watch())]
            await create_all(api, [obj for obj in workload.around if obj["kind"] != USAGE_PROFILE])
            await _is_ready(api, agent)
            wait = _wait_seconds(workload)
            observer.begin(wait)
            await create_all(api, _played(workload.pods, plans, images, now() + wait, wait))
            await asyncio.sleep(wait)
            tasks.append(group.create_task(observer.sample(lambda: _samples(machine, observer.pods))))
            await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()
        return observer.course


def _wait_seconds(workload: Workload) -> float:
    """Players begin together, when all containers are there.

    Starting one after another takes no virtual time. A container that runs a command waits for nobody.
    """
    containers = [container for pod in workload.pods for container, _ in containers_of(pod)]
    if any(map(is_ordinary, containers)):
        return 0.0
    return MONITORING_SECONDS * math.ceil(len(containers) / _STARTED_IN_TEN_SECONDS) + AFTER_A_LOOK_SECONDS


async def _is_ready(api: Api, agent: NodeAgent) -> None:
    """Once pods may come there, and the node has just looked at what it uses: a prediction begins with that, too."""
    found: Obj = {}
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not _is_open(found):
                await asyncio.sleep(_LOOK_SECONDS)
                found = await _node(api)
            before = agent.measured
            while agent.measured is before:  # noqa: ASYNC110  (measuring tells nobody)
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise NeverReady(f"the node did not get ready: {(found.get('status') or {}).get('conditions')}") from None


async def _node(api: Api) -> Obj:
    try:
        return (await api.get(NODES, NODE)).obj()
    except NotFound:
        return {}


def _is_open(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not node["spec"].get("taints")


def _played(
    pods: Iterable[Obj], plans: Mapping[ContainerKey, Played], images: PlayedImages, origin: float, wait: float
) -> list[Obj]:
    """The same pods, whose containers play their plans; until `origin`, for so many seconds, they do nothing."""
    found = copy.deepcopy(list(pods))
    for pod in found:
        if pod["spec"].get("activeDeadlineSeconds") is not None:
            pod["spec"]["activeDeadlineSeconds"] += round(wait)
        for container, _ in containers_of(pod):
            played = plans.get((namespace_of(pod), pod["metadata"]["name"], container["name"]))
            if played is not None:
                container["image"] = images.make(played, origin)
    return found


def _samples(machine: Nested, pods: Iterable[Obj]) -> dict[ContainerRun, Counters]:
    found = {}
    for pod in pods:
        name = pod_cgroup(qos_cgroup(kubepods(machine.cgroup), qos_class(pod["spec"])), pod["metadata"]["uid"])
        status = pod.get("status") or {}
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            id_ = (container.get("containerID") or "").partition("://")[2]
            path = container_path(name, id_, CgroupDriver.CGROUPFS)
            if not id_ or (usage := usage_of(machine.cgroups, path)) is None:
                continue
            if "running" not in (container.get("state") or {}):
                continue
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"], container["name"])
            throttling = throttling_of(machine.cgroups, path)
            found[ContainerRun(key, id_)] = Counters(
                usage.cpu_nanoseconds, throttling.periods, throttling.throttled_periods, usage.oom_kills
            )
    return found
