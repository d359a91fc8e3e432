"""What has gone leaves nothing: of nothing that components keep there is more with every namespace, node or kind that
came and went.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from fairlead import compose
from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api
from fairlead.controllers import expectations
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, kubelet_nodes
from fairlead.store.memory import MemoryStore

_CONTAINERS = (dict, list, set, deque, OrderedDict)
#: What is bounded otherwise than by what there is.
_BOUNDED = {
    "fairlead.server.storage.cache.Cache._history",  # by its age and size
    "fairlead.caches.LruCache._items",
    "fairlead.runtime.metrics.Histogram.series",  # MOST_SERIES of each
    "fairlead.runtime.metrics.Counter.values",
    "fairlead.scheduler.facts.owners.Owners._answers",  # REMEMBERED
    "fairlead.scheduler.columns.Journal._rows",  # by how many nodes there are
    "fairlead.scheduler.columns.Codes.values",  # likewise
    "fairlead.scheduler.columns.Codes._code_of",
    "fairlead.runtime.loops.VirtualLoop._ready",
    "fairlead.sim.registration.Registration._numbers",  # a node that comes again has its old address
}
#: So many of everything come and go at a time.
_MANY = 6


def largest_kept() -> Counter[str]:
    """The largest of the collections that objects of each class have in each attribute, and of those within."""
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        module = type(each).__module__
        if not isinstance(module, str) or not module.startswith("fairlead."):
            continue
        for name, value in _attributes(each):
            if isinstance(value, _CONTAINERS):
                place = f"{module}.{type(each).__qualname__}.{name}"
                inner = value.values() if isinstance(value, dict) else value
                sizes = [len(value), *(len(one) for one in list(inner) if isinstance(one, _CONTAINERS))]
                found[place] = max(found[place], *sizes)
    return found


def _attributes(obj: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(obj, "__dict__", {}).items()
    names = [*getattr(type(obj), "__struct_fields__", ())]
    for base in type(obj).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        with suppress(AttributeError):
            yield name, getattr(obj, name)


async def _come_and_go(api: Api, kind: Resource, number: int) -> None:
    """A namespace with an application, a node with a pod, and a definition with an object."""
    name = f"n-{number}"
    labels = {"app": name}
    spec = {"containers": [{"name": "c", "image": f"i-{number}", "resources": {"requests": {"cpu": "1m"}}}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selecting = {"selector": {"matchLabels": labels}, "template": template}
    await api.create(builtin.NAMESPACES, {"metadata": {"name": name}})
    machine = {"cpu": "4", "memory": "8Gi", "pods": "10", f"example.com/{name}": "1"}
    zone = {"topology.kubernetes.io/zone": name}
    node = {"metadata": {"name": name, "labels": zone}, "status": {"capacity": machine, "allocatable": machine}}
    await api.create(builtin.NODES, node)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": kind.plural, "kind": kind.kind}
    definition = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    await api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": kind.qualified}, "spec": definition})
    await asyncio.sleep(5)
    await api.create(kind, _named("o"), name)
    await api.create(builtin.SERVICES, _named("s", ports=[{"port": 80}], selector=labels), name)
    await api.create(builtin.DEPLOYMENTS, _named("d", replicas=1, **selecting), name)
    await api.create(builtin.JOBS, _named("j", template={"spec": spec | {"restartPolicy": "Never"}}), name)
    await api.create(builtin.RESOURCE_QUOTAS, _named("q", hard={"pods": "10"}), name)
    await api.create(builtin.PODS, _named("p", **spec, nodeName=name), name)
    await asyncio.sleep(60)
    await api.delete(builtin.NODES, name)
    await asyncio.sleep(120)
    await api.delete(builtin.NAMESPACES, name)
    await api.delete(builtin.CUSTOM_RESOURCE_DEFINITIONS, kind.qualified)
    await asyncio.sleep(120)
    for resource, left in ((builtin.NAMESPACES, name), (builtin.CUSTOM_RESOURCE_DEFINITIONS, kind.qualified)):
        with pytest.raises(ApiError):
            await api.get(resource, left)


def _named(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


async def _kept_by_rounds(rounds: int) -> list[Counter[str]]:
    settings = compose.Settings(nodes=tuple(kubelet_nodes(2, NodeShape("8", "32Gi"))), arbitrator=True)
    running = await compose.opened(MemoryStore(), settings)
    numbers = count()
    found = []
    async with compose.components(running, settings, heartbeats=False):
        for _ in range(rounds):
            async with asyncio.TaskGroup() as group:
                for number in (next(numbers) for _ in range(_MANY)):
                    kind = Resource(f"g{number}.example.com", "v1", "things", "Thing", namespaced=True)
                    group.create_task(_come_and_go(running.api, kind, number))
            await asyncio.sleep(24 * 3600)
            found.append(largest_kept())
    return found


@pytest.mark.slow
def test_namespaces_nodes_and_kinds_that_are_gone_are_forgotten_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "_MANY", 8)  # of each controller
    before, between, after = run_virtual(_kept_by_rounds(4))[1:]
    grown = {place for place in after if min(after[place] - between[place], between[place] - before[place]) >= _MANY}
    assert grown - _BOUNDED == set()
