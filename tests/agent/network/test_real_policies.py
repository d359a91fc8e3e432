"""NetworkPolicies between real pods: of one bridge, of two nodes, and through services."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from fairlead.api.builtin import NAMESPACES, NETWORK_POLICIES, PODS
from fairlead.api.objects import Obj
from tests.agent.network.namespaces import real
from tests.agent.network.nodes import Pod, eventually
from tests.agent.network.test_real_services import Town, _fails

pytestmark = real


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    made = Town(tmp_path_factory.mktemp("town"))
    made.cluster.patch(NAMESPACES, "default", {"metadata": {"labels": {"team": "shop"}}})
    yield made
    made.close()


def policy(town: Town, **spec: object) -> None:
    town.cluster.put(NETWORK_POLICIES, {"metadata": {"name": "tested", "namespace": "default"}, "spec": spec})


@pytest.fixture(autouse=True)
def without_policy(town: Town) -> Iterator[None]:
    yield
    town.cluster.delete(NETWORK_POLICIES, "tested")
    eventually(lambda: town.beside.ask(town.web.address, 8080) and town.far.ask(town.web.address, 8080))


def _is_open(town: Town, expected: bool) -> bool:
    return _fails(town.beside, town.web.address, 8080) is not expected


def app(name: str) -> Obj:
    return {"matchLabels": {"app": name}}


def blocked(asker: Pod, town: Town) -> None:
    eventually(lambda: _fails(asker, town.web.address, 8080))


def test_default_deny_blocks_pods_of_the_same_bridge_and_of_others_but_not_the_node(town: Town) -> None:
    policy(town, podSelector={}, policyTypes=["Ingress"])
    blocked(town.beside, town)
    blocked(town.far, town)
    assert town.first.netns.ask(town.web.address, 8080).startswith("web ")


def test_who_is_selected_gets_through_and_the_others_do_not(town: Town) -> None:
    policy(town, podSelector=app("web"), policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": app("far")}]}])
    blocked(town.beside, town)
    assert town.far.ask(town.web.address, 8080) == f"web {town.far.address}"
    town.cluster.patch(PODS, "beside", {"metadata": {"labels": {"app": "far"}}}, "default")
    eventually(lambda: town.beside.ask(town.web.address, 8080))
    town.cluster.patch(PODS, "beside", {"metadata": {"labels": {"app": "beside"}}}, "default")
    blocked(town.beside, town)


def test_policies_hold_through_a_service(town: Town) -> None:
    town.cluster.service("guarded", "10.0.0.40", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.40", 80) and town.far.ask("10.0.0.40", 80))
    policy(town, podSelector=app("web"), policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": app("far")}]}])
    blocked(town.beside, town)
    assert _fails(town.beside, "10.0.0.40", 80)
    assert town.far.ask("10.0.0.40", 80) == f"web {town.far.address}"


def test_a_pod_is_never_kept_from_itself(town: Town) -> None:
    town.cluster.service("self", "10.0.0.41", [town.web])
    eventually(lambda: town.web.ask("10.0.0.41", 80))
    policy(town, podSelector={}, policyTypes=["Ingress", "Egress"])
    blocked(town.beside, town)
    assert town.web.ask("10.0.0.41", 80).startswith("web ")


def test_ports_by_number_by_name_and_by_range(town: Town) -> None:
    for ports, is_open in (
        ([{"protocol": "TCP", "port": 8080}], True),
        ([{"protocol": "TCP", "port": "http"}], True),
        ([{"protocol": "TCP", "port": 8000, "endPort": 8100}, {"protocol": "TCP", "port": 8050}], True),
        ([{"protocol": "UDP", "port": 8080}], False),
        ([{"protocol": "TCP", "port": "other"}], False),
        ([{"protocol": "TCP", "port": 8081, "endPort": 9000}], False),
    ):
        policy(town, podSelector=app("web"), policyTypes=["Ingress"], ingress=[{"ports": ports}])
        eventually(partial(_is_open, town, is_open))
        town.cluster.delete(NETWORK_POLICIES, "tested")
        eventually(lambda: town.beside.ask(town.web.address, 8080))
    policy(town, podSelector={}, policyTypes=["Ingress"])


def test_egress_by_selectors_blocks_and_names_of_ports_are_the_receivers(town: Town) -> None:
    to = [{"namespaceSelector": {"matchLabels": {"team": "shop"}}, "podSelector": app("web")}]
    named = [{"protocol": "TCP", "port": "http"}]
    policy(town, podSelector=app("beside"), policyTypes=["Egress"], egress=[{"to": to, "ports": named}])
    eventually(lambda: _fails(town.beside, town.far.address, 8080))
    assert town.beside.ask(town.web.address, 8080)
    assert town.far.ask(town.beside.address, 8080), "nobody isolated it for those who come"


def test_blocks_of_addresses_with_exceptions(town: Town) -> None:
    with town.client.answering(9000, "world"):
        block = {"cidr": "192.168.77.0/24", "except": ["192.168.77.64/26"]}
        policy(town, podSelector=app("beside"), policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}])
        eventually(lambda: _fails(town.beside, "192.168.77.100", 9000))
        block = {"cidr": "192.168.77.0/24", "except": ["192.168.77.128/25"]}
        patch = {"spec": {"egress": [{"to": [{"ipBlock": block}]}]}}
        town.cluster.patch(NETWORK_POLICIES, "tested", patch, "default")
        eventually(lambda: town.beside.ask("192.168.77.100", 9000))
        assert _fails(town.beside, town.web.address, 8080)


def test_a_pod_that_comes_under_a_policy_never_has_a_moment_without_it(town: Town) -> None:
    policy(town, podSelector=app("late"), policyTypes=["Ingress"])
    late = town.first.pod("late", app="late")
    with late.netns.answering(8080, "late"):
        assert _fails(town.beside, late.address, 8080)
    town.first.detach(late)
    town.cluster.delete(PODS, "late")
