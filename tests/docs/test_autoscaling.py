"""The story of docs/autoscaling.md happens as the page shows it."""

from __future__ import annotations

import asyncio
import re

import yaml

from fairlead.api.builtin import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from fairlead.api.verbs import PatchType
from fairlead.compose import Settings, simulation
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.server.tables import printer_of
from fairlead.sim.nodes import NodeShape, uniform
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "autoscaling.md").read_text()
SHOWN = re.findall(r"^web +(\S+) +(cpu: \S+) +(\d+) +(\d+) +(\d+) +(\w+)$", PAGE, re.MULTILINE)


async def _printed(api: UserApi) -> tuple[str, ...]:
    """What `kubectl get hpa` prints after the name."""
    autoscaler = (await api.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")).obj()
    printer = printer_of(HORIZONTAL_POD_AUTOSCALERS, None)
    (row,) = printer.rows(autoscaler, now())
    return tuple(str(cell) for cell in row["cells"][1:7])


async def _annotate(api: UserApi) -> None:
    found = re.search(r"kubectl annotate pod -l app=web --overwrite (\S+)=(\S+)", PAGE)
    assert found is not None
    patch = {"metadata": {"annotations": {found[1]: found[2]}}}
    for pod in (await api.list(PODS, "default")).items:
        await api.patch(PODS, pod.obj()["metadata"]["name"], "default", patch, PatchType.MERGE)


def test_the_autoscaler_grows_and_shrinks_the_deployment_as_the_page_shows() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    deployment, autoscaler = yaml.safe_load_all(text)

    async def story() -> None:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, _):
            await api.create(DEPLOYMENTS, deployment, "default")
            await api.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "default")
            await asyncio.sleep(600)
            assert await _printed(api) == SHOWN[0]
            await _annotate(api)
            await asyncio.sleep(290)
            assert (await _printed(api))[4] == "4"
            await asyncio.sleep(60)
            assert (await _printed(api))[4] == "2"
            await asyncio.sleep(850)
            assert await _printed(api) == SHOWN[1]

    assert len(SHOWN) == 2
    run_virtual(story())
