"""Every example of docs/simulated-nodes.md does what the page says, and the page knows every annotation."""

from __future__ import annotations

import asyncio
import re

import pytest
import yaml

from fairlead.api.builtin import JOBS, PODS, STATEFUL_SETS
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.server.tables.pods import PodSubject
from fairlead.sim import behaviour
from fairlead.sim.nodes import NodeShape, uniform
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "simulated-nodes.md").read_text()
KINDS = {one.kind: one for one in (JOBS, PODS, STATEFUL_SETS)}
EXAMPLES = re.findall(r"```yaml\n# shows: (\S+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("shown", "text"), EXAMPLES)
def test_an_example_shows_what_the_page_says(shown: str, text: str) -> None:
    manifest = yaml.safe_load(text)

    async def run() -> str:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, _):
            await api.create(KINDS[manifest["kind"]], manifest, "default")
            await asyncio.sleep(180)
            (pod,) = api.registry.each("pods", "default")
            return PodSubject(pod.obj(), now()).summary.reason

    rng.seed(1)
    assert run_virtual(run()) == shown


def test_the_page_names_every_annotation() -> None:
    named = {
        value for value in vars(behaviour).values() if isinstance(value, str) and value.startswith("sim.fairlead.dev/")
    }
    assert len(EXAMPLES) == PAGE.count("```yaml")
    assert not {name for name in named - {behaviour.PREFIX} if f"`{name}`" not in PAGE}
