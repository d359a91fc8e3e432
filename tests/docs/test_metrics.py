"""The pods of docs/metrics.md use what the page says, and the paths that it names answer."""

from __future__ import annotations

import asyncio
import re

import yaml

from fairlead.api.builtin import PODS
from fairlead.api.metrics import POD_METRICS, PodMetrics
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "metrics.md").read_text()


def test_the_pods_use_what_kubectl_top_shows() -> None:
    manifests = [yaml.safe_load_all(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    shown = re.findall(r"^(\w+) +(\d+m) +(\d+Mi)$", PAGE, re.MULTILINE)

    async def run() -> list[tuple[str, str, str]]:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, _):
            for manifest in (manifest for page in manifests for manifest in page):
                await api.create(PODS, manifest, "default")
            await asyncio.sleep(60)
            found = [item.view(PodMetrics) for item in (await api.list(POD_METRICS, "default")).items]
            usages = [(pod.metadata.name, pod.containers[0].usage) for pod in found]
            return [(name, usage["cpu"], usage["memory"]) for name, usage in usages]

    assert sorted(run_virtual(run())) == sorted(shown)
    assert len(shown) == 2


def test_every_path_answers() -> None:
    paths = re.findall(r"^\| `([a-z/]+)` \|", PAGE, re.MULTILINE)

    async def run() -> list[int]:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, _):
            agents = api.registry.agents
            assert agents is not None
            answers = [await agents.get("node-1", path, {}) for path in paths]
            return [found.code if found else 0 for found in answers]

    assert len(paths) == 9
    assert run_virtual(run()) == [200] * len(paths)
