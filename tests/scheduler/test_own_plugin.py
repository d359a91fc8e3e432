"""The example of a scheduler plugin (docs/scheduler-plugins.md), installed as its users would install it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.api.scheduling import Pod
from fairlead.api.strict import ConfigurationError
from fairlead.scheduler import plugins
from fairlead.scheduler.configuration import load
from fairlead.scheduler.framework import Plugin
from fairlead.scheduler.profile import Profile, Weighted
from fairlead.scheduler.queue import SchedulingQueue
from fairlead.scheduler.snapshot import Snapshot
from tests.scheduler.scheduler_world import Cluster, node, pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduler-plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is on the path, with the metadata that pip would write."""
    info = tmp_path / "thrifty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thrifty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fairlead.scheduler.plugins]\nThrifty = thrifty:Thrifty\n")
    (tmp_path / "thrifty.py").write_text((EXAMPLE / "thrifty.py").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    plugins._installed.cache_clear()
    yield
    plugins._installed.cache_clear()


def cluster() -> Cluster:
    nodes = [
        node("cheap", labels={"price": "10", "spot": "true"}),
        node("fair", labels={"price": "40"}),
        node("dear", labels={"price": "90"}, cpu=64, memory="512Gi"),
    ]
    return Cluster(*nodes, profile=load(yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())).profiles[0])


def test_it_prefers_cheap_nodes_and_refuses_spot_nodes_to_who_is_in_a_hurry(installed: None) -> None:
    some = cluster()
    assert some.best(pod("w", cpu=1)) == {"cheap"}
    assert some.scores(pod("w", cpu=1), "Thrifty") == {"cheap": 270, "fair": 180, "dear": 30}
    assert some.best(pod("x", cpu=1, labels={"hurry": "true"})) == {"fair"}


def test_its_arguments_are_read_strictly(installed: None) -> None:
    document = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
    document["profiles"][0]["pluginConfig"][0]["args"] = {"lable": "price"}
    with pytest.raises(ConfigurationError, match=r'unknown field "profiles\[0\].pluginConfig\[0\].args.lable"'):
        load(document)


def test_a_plugin_that_is_not_installed_does_not_exist() -> None:
    with pytest.raises(ConfigurationError, match='plugin "Thrifty" does not exist'):
        load(yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text()))


def test_it_takes_less_than_thirty_lines() -> None:
    """Without its description, imports and blank lines."""
    tree = ast.parse((EXAMPLE / "thrifty.py").read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sum((definition.end_lineno or 0) - definition.lineno + 1 for definition in classes) <= 30


class ShortestFirst(Plugin):
    """Pods that ask for least go first."""

    name = "ShortestFirst"

    def rank(self, pod: Pod, since: float) -> tuple[float, ...]:
        return float(sum(len(container.resources.requests or ()) for container in pod.spec.containers)), since


def test_a_plugin_may_order_the_queue() -> None:
    profile = Profile((Weighted(ShortestFirst()),))
    queue = SchedulingQueue(Snapshot(), profile.events)
    for name, more in (("large", {"cpu": "1", "memory": "1Gi"}), ("small", {"cpu": "1"})):
        newcomer = pod(name, **more)
        queue.add(newcomer, Cluster().request(newcomer), profile, now=100.0)
    order = [queue.pop(), queue.pop()]
    assert [queued.pod.metadata.name for queued in order if queued is not None] == ["small", "large"]
