"""deploy/arbitrator/rbac.yaml: the arbitrator works under exactly these rules, and uses every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fairlead.api import builtin
from fairlead.api.errors import Forbidden
from fairlead.api.references import Reference
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.leader_endpoint import take_over
from fairlead.arbitrator.live_context import own_name, review_context
from fairlead.arbitrator.objects import GATE, GRANTED, MISSPELT_CONSUMERS, THE_NAME
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.cli.arbitrator import LEASE
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informers
from fairlead.client.leader import Election, Terms
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.wire import Call, Wire, api_of
from tests.arbitrator.world import World

Obj = dict[str, Any]
RULES = Path(__file__).parents[2] / "deploy" / "arbitrator" / "rbac.yaml"
#: What everybody may do (ClusterRole system:basic-user).
EVERYBODY = ("", "authentication.k8s.io", "selfsubjectreviews", "create", "")


def allowed() -> Iterator[tuple[str, str, str, str, str]]:
    """Namespace (empty: all), group, resource, verb, name (empty: all)."""
    for document in yaml.safe_load_all(RULES.read_text()):
        namespace = document["metadata"].get("namespace", "")
        for rule in document.get("rules", ()):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            yield namespace, group, resource, verb, name


class Authorizer:
    """Refuses what no rule allows, and keeps which rules were of use."""

    def __init__(self) -> None:
        self.rules = [*allowed(), EVERYBODY]
        self.used: set[tuple[str, str, str, str, str]] = set()
        self.refused: set[tuple[str, str]] = set()

    def ask(self, call: Call) -> None:
        what = (call.group, call.resource, call.verb)
        fits = [
            rule
            for rule in self.rules
            if rule[1:4] == what and rule[0] in ("", call.namespace) and rule[4] in ("", call.name)
        ]
        self.used.update(fits)
        if not fits:
            self.refused.add((call.verb, call.resource))
            raise Forbidden.of(call.resource, call.name, "no rule allows it", call.group)


def test_it_needs_these_rights_and_no_others() -> None:
    """It divides, with a group; takes back, with events; lifts a gate; leads, and says so."""
    authorizer = Authorizer()

    async def play() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape("10", "64Gi", 110))))
        async with simulation(settings) as (direct, _):
            for definition in definitions():
                await direct.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition)
            wire = Wire(direct)
            wire.before = authorizer.ask
            api = api_of(wire)
            election, informers = Election(api, "one", Terms(LEASE)), Informers(api)

            async def work() -> None:
                for address in ("10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2"):
                    await take_over(api, "kube-system", "fairlead-arbitrator-extender", address, 9443)
                await ArbitratorComponent(api, informers, GrantTable(Accounting()), may_act=election.is_leading).run()

            tasks = [asyncio.create_task(informers.run()), asyncio.create_task(election.lead(work))]
            await review_context(api, informers)
            assert await own_name(api)
            await scenario(World(direct))
            recorder = EventRecorder(api, "arbitrator")
            tasks.append(asyncio.create_task(recorder.run()))
            for _ in range(2):  # what is said again is counted, not told twice
                recorder.event(Reference(kind="Namespace", name="a"), "Warning", "Overused", "too much")
            await recorder.flushed()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(play())
    assert authorizer.refused == {("create", "customresourcedefinitions")}
    assert authorizer.used == set(authorizer.rules)


async def scenario(world: World) -> None:
    await world.settle()
    await world.group("zone")
    await world.namespace("a", evictionGrace="5s", parent="zone")
    await world.pods("a", 10)
    await world.settle()
    await world.namespace("b")
    await world.pods("b", 4)
    await world.settle()
    twin = {"metadata": {"name": THE_NAME, "namespace": "b"}, "spec": {"weight": 2}}
    await world.api.create(MISSPELT_CONSUMERS, twin, "b")
    requests = {"requests": {"cpu": "1"}}
    spec = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "c", "image": "x", "resources": requests}]}
    await world.api.create(builtin.PODS, {"metadata": {"name": "gated", "namespace": "b"}, "spec": spec}, "b")
    await asyncio.sleep(90)
    pods = {entry.obj()["metadata"]["name"]: entry.obj() for entry in (await world.api.list(builtin.PODS, "b")).items}
    assert all("nodeName" in pod["spec"] for pod in pods.values()) and len(pods) == 5
    assert GRANTED in pods["gated"]["metadata"]["annotations"]
