"""Subnets of nodes never overlap, whoever chooses when."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.network.routes import wanted_routes
from fairlead.agent.network.settings import SUBNET_ANNOTATION, NetworkSettings
from fairlead.agent.network.subnets import NoSubnetLeft, choose, claim
from fairlead.agent.network.views import Node, NodeAddress, NodeStatus
from fairlead.api.builtin import NODES
from fairlead.api.meta import ObjectMeta
from tests.registry_api import RegistryApi

PODS = IPv4Network("10.244.0.0/16")


def networks(within: str, smallest: int) -> st.SearchStrategy[IPv4Network]:
    whole = IPv4Network(within)
    prefixes = st.integers(whole.prefixlen, smallest)
    return st.tuples(st.integers(0, whole.num_addresses - 1), prefixes).map(
        lambda drawn: IPv4Network((int(whole[drawn[0]]), drawn[1]), strict=False)
    )


TAKEN = st.lists(networks("10.244.0.0/20", 28) | networks("10.0.0.0/8", 30), max_size=8)


@given(TAKEN, st.integers(20, 26), st.none() | networks("10.244.0.0/20", 26))
def test_the_choice_overlaps_nobody_and_fails_only_if_nothing_is_free(
    taken: list[IPv4Network], prefix: int, preferred: IPv4Network | None
) -> None:
    network = IPv4Network("10.244.0.0/20")
    free = [part for part in network.subnets(new_prefix=prefix) if not any(part.overlaps(other) for other in taken)]
    try:
        chosen = choose(network, prefix, taken, preferred)
    except NoSubnetLeft:
        assert not free
    else:
        assert chosen == (preferred if preferred in free else free[0])


def test_nodes_that_claim_at_the_same_time_end_with_different_subnets_and_keep_them(tmp_path: Path) -> None:
    names = [f"node-{number}" for number in range(6)]
    every = [NetworkSettings(node_name=name, root=tmp_path / name) for name in names]

    async def test() -> None:
        async with RegistryApi() as api:
            for name in names:
                await api.put(NODES, {"metadata": {"name": name}})
            first = await asyncio.gather(*(claim(settings, api) for settings in every))
            assert len(set(first)) == len(names)
            again = await asyncio.gather(*(claim(settings, api) for settings in every))
            assert again == first
            listing = await api.list(NODES, "")
            said = {item.view(Node).metadata.annotations[SUBNET_ANNOTATION] for item in listing.items}
            assert said == set(map(str, first))

    asyncio.run(test())


def test_a_claim_waits_for_its_node(tmp_path: Path) -> None:
    settings = NetworkSettings(node_name="late", root=tmp_path)

    async def test() -> None:
        async with RegistryApi() as api:
            claiming = asyncio.create_task(claim(settings, api))
            await asyncio.sleep(0.05)
            assert not claiming.done()
            await api.put(NODES, {"metadata": {"name": "late"}})
            assert (await claiming).subnet_of(PODS)

    asyncio.run(test())


def _node(name: str, subnet: str, address: str) -> Node:
    meta = ObjectMeta(name=name, annotations={SUBNET_ANNOTATION: subnet})
    return Node(metadata=meta, status=NodeStatus(addresses=(NodeAddress(type="InternalIP", address=address),)))


def test_routes_are_of_other_nodes_and_none_draws_packets_of_others_to_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = [
        _node("us", "10.244.0.0/24", "192.168.0.1"),
        _node("them", "10.244.1.0/24", "192.168.0.2"),
        _node("thief", "10.244.0.0/24", "192.168.0.3"),
        _node("two", "10.244.1.0/24", "192.168.0.5"),
        _node("wide", "10.244.0.0/16", "192.168.0.6"),
        _node("narrow", "10.244.1.0/25", "192.168.0.7"),
        _node("stranger", "172.16.0.0/24", "192.168.0.8"),
        _node("odd", "nonsense", "192.168.0.4"),
        _node("nowhere", "10.244.2.0/24", "fd00::1"),
    ]
    settings = NetworkSettings(node_name="us", root=Path("/nonexistent"))
    assert wanted_routes(nodes, settings, IPv4Network("10.244.0.0/24")) == {"10.244.1.0/24": "192.168.0.2"}
    assert "node odd" in caplog.text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"node_prefix": 8}, "node_prefix"),
        ({"node_prefix": 31}, "node_prefix"),
        ({"service_network": IPv4Network("10.244.3.0/24")}, "cannot share"),
        ({"service_network": IPv4Network("10.0.0.0/30")}, "no address for DNS"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, int], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=problem):
        NetworkSettings(node_name="us", root=tmp_path, **options)  # type: ignore[arg-type]
