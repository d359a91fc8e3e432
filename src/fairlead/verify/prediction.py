"""The workload in virtual time, on a simulated node that has the facts of the nested machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api
from fairlead.compose import Settings, simulation
from fairlead.node.eviction.manager import MONITORING_SECONDS
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import VirtualLoop, run_virtual
from fairlead.sim.machine.machines import Machines
from fairlead.sim.machine.measurements import node_measurements
from fairlead.sim.node_settings import NodeConfigurations, NodeGroup
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.resolving import DEFAULT
from fairlead.verify.facts import NODE, node_of
from fairlead.verify.happenings import ContainerKey, ContainerRun, Counters, Course, Observer
from fairlead.verify.nested import Nested
from fairlead.verify.objects import create_all, namespace_of
from fairlead.verify.plan import Played, Stretch, plan
from fairlead.verify.workload import AFTER_A_LOOK_SECONDS, Workload, containers_of, is_ordinary, kubelet_document

_SEED: Final = 1


class Unplayable(Exception):
    """A usage that makes no sense; the text says whose."""


class Prediction(NamedTuple):
    course: Course
    plans: dict[ContainerKey, Played]
    #: Of which it was said how much cpu they use.
    with_cpu: frozenset[str]


def predict(workload: Workload, machine: Nested, seconds: float) -> Prediction:
    """Unplayable; ApiError for what an API server refuses, StartupError for what a kubelet would not start with."""
    return run_virtual(_predict(workload, machine, seconds))


async def _predict(workload: Workload, machine: Nested, seconds: float) -> Prediction:
    fleets: list[Machines] = []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    settings = Settings(
        port=0,
        nodes=(node_of(machine, sum(len(list(containers_of(pod))) for pod in workload.pods)),),
        configurations=NodeConfigurations([NodeGroup(kubelet_document(workload), workload.name)]),
        on_machines=fleets.append,
    )
    with rng.seeded(_SEED):
        async with simulation(settings) as (api, _):
            machines = fleets[0]
            await asyncio.sleep(MONITORING_SECONDS - now() % MONITORING_SECONDS + AFTER_A_LOOK_SECONDS)
            observer = Observer(api)
            watching = asyncio.create_task(observer.watch())
            await create_all(api, workload.around)
            observer.begin()
            began = now()
            await create_all(api, workload.pods)
            sampling = asyncio.create_task(observer.sample(lambda: _samples(machines)))
            await loop.settled()  # profiles are known
            played = _plans(machines, await _views(api, workload.pods), Stretch(began, seconds))
            await asyncio.sleep(seconds)
            for task in (watching, sampling):
                task.cancel()
            return Prediction(observer.course, played.plans, frozenset(played.with_cpu))


async def _views(api: Api, pods: Sequence[Obj]) -> list[tuple[Obj, Pod]]:
    """The pods as they were written, each with what the server has made of it."""
    return [(pod, (await api.get(PODS, pod["metadata"]["name"], namespace_of(pod))).view(Pod)) for pod in pods]


def _samples(machines: Machines) -> dict[ContainerRun, Counters]:
    node, machine = machines.node(NODE), machines.machine(NODE)
    if node is None or machine is None:
        return {}
    measured = node_measurements(node, machine, machines.cpu_account(NODE), now(), machines.claim_capacity)
    return {
        ContainerRun((pod.namespace, pod.name, it.name), f"{it.started_at}"): Counters(
            it.cpu.usage_core_nano_seconds, it.cpu.periods or 0, it.cpu.throttled_periods or 0, it.memory.oom_kills
        )
        for pod in measured.pods
        for it in pod.containers
    }


class _Plans(NamedTuple):
    plans: dict[ContainerKey, Played]
    with_cpu: set[str]


def _plans(machines: Machines, pods: Sequence[tuple[Obj, Pod]], stretch: Stretch) -> _Plans:
    found = _Plans({}, set())
    for manifest, pod in pods:
        usage = machines.usage(pod)
        if usage.problems:
            raise Unplayable(f"pod {pod.metadata.name}: {usage.problems[0]}")
        specs = {it.name: it for it in (*pod.spec.init_containers, *pod.spec.containers)}
        for container, is_init in containers_of(manifest):
            spec = specs[container["name"]]
            key = (pod.metadata.namespace, pod.metadata.name, spec.name)
            if not is_ordinary(container):
                found.plans[key] = plan(pod, spec, usage, stretch, is_init=is_init)
            cpu = usage.containers[spec.name].get(Measure.CPU)
            if cpu is not None and cpu.source != DEFAULT:
                found.with_cpu.add("/".join(key))
    return found
