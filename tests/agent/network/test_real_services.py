"""Real TCP between real namespaces, through real rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.network.namespaces import real
from tests.agent.network.nodes import Cluster, eventually

pytestmark = real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def test_pods_reach_each_other_and_services_across_nodes(cluster: Cluster) -> None:
    first, second = cluster.node("first"), cluster.node("second")
    web, beside, far = first.pod("web"), first.pod("beside"), second.pod("far")
    with web.netns.answering(8080, "web"), far.netns.answering(8080, "far"):
        assert beside.ask(web.address, 8080) == f"web {beside.address}"
        eventually(lambda: beside.ask(far.address, 8080) == f"far {beside.address}")
        cluster.service("web", "10.0.0.20", [web])
        eventually(lambda: beside.ask("10.0.0.20", 80) == f"web {beside.address}")
        assert far.ask("10.0.0.20", 80) == f"web {far.address}"
