"""Plays a workload in virtual time to its end, and keeps record: what `fairlead simulate` prints, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Unpack

import msgspec
from msgspec.structs import replace

from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.pods import Pod
from fairlead.client.events import telling_only
from fairlead.client.informer import Informers
from fairlead.compose import Settings
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import DEFAULT_EPOCH, run_virtual
from fairlead.sim import openb
from fairlead.sim.manifests import latest_date
from fairlead.sim.openb import Arrival
from fairlead.simulation.moments import Duration, Moment, moment_of, seconds_of
from fairlead.simulation.objects import Objects
from fairlead.simulation.options import ClusterOptions, Source, existing, objects_of, virtual_settings_of
from fairlead.simulation.tables import Event, Events, Pods, event_row, pod_row
from fairlead.study.dump_behaviour import declared
from fairlead.study.dump_notes import assumed_sources
from fairlead.study.recorded import RESTLESS, recorded


class Simulation(msgspec.Struct, frozen=True):
    """What came of a run."""

    #: What `fairlead simulate -o json` prints.
    summary: Obj
    #: Every pod that was there, those that went as they were last.
    pods: Pods
    #: What was told of the pods and all else; empty if that was not asked for.
    events: Events

    @property
    def digest(self) -> str:
        """Of everything that happened to every pod: equal runs have equal digests."""
        return str(self.summary["digest"])


def simulate(
    workload: Source | None = None,
    *,
    duration: Duration | None = None,
    start: Moment | None = None,
    seed: int = 1,
    events: bool = True,
    **options: Unpack[ClusterOptions],
) -> Simulation:
    """Play a workload in virtual time: an openb pod list (.csv), whose pods come when it says, or objects of any kind,
    which are applied at the start. Ends when nothing is left to happen, or after `duration`.

    CronJobs and autoscalers never come to rest: with those, say how long. Events take time and memory; leave them out
    of long runs. Raises what `virtual_cluster` raises, and `ArrivalRefused` for a pod that the server refuses.
    """
    settings = virtual_settings_of(options)
    limit = None if duration is None else seconds_of(duration)
    taken = latest_date(settings.imported)
    begins = taken if start is None else moment_of(start, DEFAULT_EPOCH)
    settings = _going_on(settings, taken)
    coming, objects = _read(workload)
    if limit is None and (restless := sorted({obj["kind"] for obj in (*settings.imported, *objects)} & RESTLESS)):
        raise ValueError(f"with {' and '.join(restless)} a cluster never comes to rest: say how long (duration)")
    main = _simulate(settings, objects, coming, limit, seed, with_events=events)
    return run_virtual(main, DEFAULT_EPOCH if begins is None else begins)


def _going_on(settings: Settings, taken: float | None) -> Settings:
    """What is imported behaves as `fairlead simulate` has it behave: as it did when the dump was taken."""
    imported = settings.imported
    assumed = assumed_sources(imported)
    return replace(settings, imported=(*imported, *declared(imported, taken)), assumed_sources=assumed)


def _read(workload: Source | None) -> tuple[list[Arrival], list[Obj]]:
    """What comes in time, and what is there at the start."""
    if workload is None:
        return [], []
    if isinstance(workload, str | Path) and str(workload).endswith(".csv"):
        return openb.read_pods(existing(Path(workload))), []
    objects = objects_of(workload)
    if dumped := next((obj for obj in objects if metadata(obj).get("uid")), None):
        raise ValueError(
            f"{dumped['kind']} {name_of(dumped)} has a uid: it is of a cluster that is there, whose dump is imported=…"
        )
    return [], objects


async def _simulate(
    settings: Settings,
    objects: Sequence[Obj],
    coming: Sequence[Arrival],
    limit: float | None,
    seed: int,
    *,
    with_events: bool,
) -> Simulation:
    with rng.seeded(seed), nullcontext() if with_events else telling_only(()):
        async with recorded(settings) as run:
            seen = _Seen(run.informers, with_events=with_events)
            await Objects(run.api, run.api.registry.catalogue).apply(objects)
            end = await run.play(coming, limit, lambda count, at: None)
            return Simulation(run.observer.summary(run.informers, end) | {"seed": seed}, seen.pods(end), seen.events())


class _Seen:
    """Every pod and event of a run, as it was last."""

    def __init__(self, informers: Informers, *, with_events: bool) -> None:
        self._pods: dict[str, tuple[Pod, float | None]] = {}  # by uid, and when it went
        self._events: dict[str, Event] = {}
        informers.of(PODS, Pod).subscribe(self._pod)
        if with_events:
            informers.of(EVENTS, Event).subscribe(self._event)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        self._pods[pod.metadata.uid] = pod, now() if new is None else None

    def _event(self, old: Event | None, new: Event | None) -> None:
        if new is not None:
            self._events[new.metadata.uid] = new

    def pods(self, end: float) -> Pods:
        return Pods(
            pod_row(pod, end if went is None else went, is_gone=went is not None) for pod, went in self._pods.values()
        )

    def events(self) -> Events:
        return Events(sorted(map(event_row, self._events.values()), key=lambda row: row.at))
