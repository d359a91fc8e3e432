"""docs/monitoring.md and the dashboard name metrics that are served, and the page names all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.client.metrics import RestClientMetrics, leader_family
from fairlead.compose import Settings, simulation
from fairlead.controllers.metrics import ControllerMetrics
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.metrics import HISTOGRAM, Family
from tests.conftest import TESTS

ROOT = TESTS.parent
_SELECTED = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
_ROW = re.compile(r"^\| (`.*`) \| (.*)\|$", re.MULTILINE)


def of_a_cluster() -> dict[str, Family]:
    """What `fairlead up --arbitrator` serves at /metrics."""

    async def made() -> dict[str, Family]:
        async with simulation(Settings(arbitrator=True)) as (api, _):
            return {family.name: family for family in api.registry.metrics.served}

    return run_virtual(made())


def of_others() -> list[Family]:
    """What it serves elsewhere, and what single components serve besides."""

    async def made() -> list[Family]:
        async with simulation(Settings()) as (api, _):
            return list(api.registry.metrics.health.served)

    return [*run_virtual(made()), *RestClientMetrics("a").families, leader_family("a", lambda: True)]


def expressions(found: Any) -> Iterator[str]:
    """All of a dashboard."""
    if isinstance(found, dict):
        if isinstance(expression := found.get("expr"), str):
            yield expression
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from expressions(part)


def test_the_page_names_all_metrics_with_their_labels() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    told = {
        name: tuple(label.strip() for label in labels.split(",") if label.strip())
        for names, labels in _ROW.findall(page)
        for name in re.findall(r"`(\w+)`", names)
    }
    served = {family.name: family.labels for family in (*of_a_cluster().values(), *of_others())}
    assert told == served


def test_the_dashboard_asks_for_what_is_served() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "fairlead.json").read_text())
    served = of_a_cluster()
    samples = {
        name + end: family.labels
        for name, family in served.items()
        for end in (("_bucket", "_sum", "_count") if family.kind == HISTOGRAM else ("",))
    }
    asked = list(expressions(dashboard))
    assert len(asked) > 40
    for expression in asked:
        selected = _SELECTED.findall(expression)
        assert selected, expression
        for name, selectors in selected:
            assert name in samples, expression
            known = {*samples[name], "job", "le", "instance"}
            grouped = re.findall(r"by \(([^)]*)\)", expression)
            used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selectors)
            used += [label.strip() for group in grouped for label in group.split(",")]
            assert set(used) <= known, expression
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            name = re.match(r"label_values\((\w+),", variable["definition"])
            assert name is not None and name[1] in samples


def test_the_parts_of_a_cluster_serve_theirs() -> None:
    served = of_a_cluster()
    for part in (ControllerMetrics(), ArbitratorMetrics()):
        assert {family.name for family in part.families} <= served.keys()
