"""Real TCP between real namespaces, through real rules."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from fairlead.agent.network.permissions import RULES
from fairlead.agent.network_seam import HostPort
from fairlead.api.builtin import NODES, SERVICES
from tests.agent.network.namespaces import Namespace, real
from tests.agent.network.nodes import Cluster, Node, Pod, eventually

pytestmark = real


class Town:
    """Two nodes: web and beside on the first, far on the second, and a client on the wire. Servers answer at 8080."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder)
        self._open = ExitStack()
        try:
            self.first: Node = self.cluster.node("first")
            self.second: Node = self.cluster.node("second")
            self.web = self.serving(self.first, "web")
            self.beside = self.serving(self.first, "beside")
            self.far = self.serving(self.second, "far")
            self.client: Namespace = self.cluster.wire.host("client", 100)
        except BaseException:
            self.close()
            raise

    def serving(self, node: Node, name: str, **options: list[HostPort]) -> Pod:
        pod = node.pod(name, options.get("host_ports", ()), app=name)
        self._open.enter_context(pod.netns.answering(8080, name))
        return pod

    def close(self) -> None:
        self._open.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    made = Town(tmp_path_factory.mktemp("town"))
    yield made
    made.close()


def test_a_pod_reaches_a_pod_of_its_node_and_of_another_with_its_own_address(town: Town) -> None:
    assert town.beside.ask(town.web.address, 8080) == f"web {town.beside.address}"
    eventually(lambda: town.beside.ask(town.far.address, 8080) == f"far {town.beside.address}")


def test_a_service_is_reached_from_pods_of_both_nodes_and_from_the_node(town: Town) -> None:
    town.cluster.service("web", "10.0.0.20", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.20", 80) == f"web {town.beside.address}")
    eventually(lambda: town.far.ask("10.0.0.20", 80) == f"web {town.far.address}")
    assert town.first.netns.ask("10.0.0.20", 80).startswith("web ")
    assert town.second.netns.ask("10.0.0.20", 80).startswith("web ")


def test_connections_are_spread_over_the_endpoints(town: Town) -> None:
    town.cluster.service("spread", "10.0.0.21", [town.web, town.far])
    answers = {"web": 0, "far": 0}
    eventually(lambda: town.beside.ask("10.0.0.21", 80))
    for _ in range(60):
        answers[town.beside.ask("10.0.0.21", 80).split()[0]] += 1
    assert min(answers.values()) > 10


def test_a_pod_reaches_itself_through_its_service(town: Town) -> None:
    town.cluster.service("mirror", "10.0.0.22", [town.web])
    eventually(lambda: town.web.ask("10.0.0.22", 80).startswith("web "))


def test_a_service_without_endpoints_refuses_at_once_and_serves_when_one_comes(town: Town) -> None:
    town.cluster.service("empty", "10.0.0.23", [])
    for asker in (town.beside.netns, town.first.netns):

        def refused(asker: Namespace = asker) -> bool:
            with pytest.raises(ConnectionRefusedError):
                asker.ask("10.0.0.23", 80)
            return True

        eventually(refused)
    town.cluster.serve("empty", [town.far])
    eventually(lambda: town.beside.ask("10.0.0.23", 80) == f"far {town.beside.address}")
    town.cluster.delete(SERVICES, "empty")
    eventually(lambda: _fails(town.beside, "10.0.0.23", 80))


def test_a_node_port_leads_to_any_endpoint_by_any_node(town: Town) -> None:
    town.cluster.service("ported", "10.0.0.24", [town.far], type="NodePort", nodePort=30080)
    for address in ("192.168.77.1", "192.168.77.2"):
        eventually(partial(town.client.ask, address, 30080))
        assert town.client.ask(address, 30080).startswith("far ")
    assert town.first.netns.ask("192.168.77.1", 30080).startswith("far ")
    assert town.beside.ask("192.168.77.1", 30080).startswith("far ")


def test_external_traffic_policy_local_shows_who_asks_and_drops_where_no_endpoint_is(town: Town) -> None:
    town.cluster.service(
        "honest", "10.0.0.25", [town.far], type="NodePort", nodePort=30081, externalTrafficPolicy="Local"
    )
    eventually(lambda: town.client.ask("192.168.77.2", 30081) == "far 192.168.77.100")

    def dropped() -> bool:
        with pytest.raises(TimeoutError):
            town.client.ask("192.168.77.1", 30081, timeout=0.5)
        return True

    eventually(dropped)
    assert town.beside.ask("192.168.77.1", 30081).startswith("far ")


def test_internal_traffic_policy_local_stays_on_the_node(town: Town) -> None:
    town.cluster.service("near", "10.0.0.26", [town.web, town.far], internalTrafficPolicy="Local")
    eventually(lambda: town.beside.ask("10.0.0.26", 80))
    assert {town.beside.ask("10.0.0.26", 80).split()[0] for _ in range(10)} == {"web"}
    town.cluster.serve("near", [town.far])
    eventually(lambda: _fails(town.beside, "10.0.0.26", 80))
    assert town.far.ask("10.0.0.26", 80).startswith("far ")


def test_an_address_of_services_that_nobody_has_is_refused_at_once(town: Town) -> None:
    for asker in (town.beside.netns, town.first.netns):
        with pytest.raises(ConnectionRefusedError):
            asker.ask("10.0.0.99", 80)


@pytest.mark.parametrize("label", ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"])
def test_a_service_of_another_proxy_is_left_to_it_until_it_is_ours(town: Town, label: str) -> None:
    address = "10.0.0.28" if label.endswith("headless") else "10.0.0.29"
    town.cluster.service("foreign", address, [town.web])
    eventually(lambda: town.beside.ask(address, 80))
    town.cluster.patch(SERVICES, "foreign", {"metadata": {"labels": {label: ""}}}, "default")
    eventually(lambda: _fails(town.beside, address, 80))
    town.cluster.patch(SERVICES, "foreign", {"metadata": {"labels": {label: None}}}, "default")
    eventually(lambda: town.beside.ask(address, 80))
    town.cluster.delete(SERVICES, "foreign")


def test_session_affinity_keeps_a_client_at_its_endpoint_even_when_others_come(town: Town) -> None:
    town.cluster.service("sticky", "10.0.0.27", [town.web, town.far], sessionAffinity="ClientIP")
    eventually(lambda: town.beside.ask("10.0.0.27", 80))
    asked = [town.beside.ask("10.0.0.27", 80).split()[0] for _ in range(10)]
    assert len(set(asked)) == 1
    town.cluster.serve("sticky", [town.web, town.far, town.beside])
    eventually(lambda: f"{town.beside.address}.8080" in town.first.netns.run("nft list table ip fairlead"))
    assert {town.beside.ask("10.0.0.27", 80).split()[0] for _ in range(10)} == set(asked)


@pytest.mark.skipif(shutil.which("conntrack") is None, reason="REAL NETWORK NOT TESTED: apt-get install conntrack")
def test_a_client_of_udp_that_keeps_its_port_follows_the_endpoints(town: Town) -> None:
    with echoing(town.web.netns, "web"), echoing(town.far.netns, "far"):
        town.cluster.service("echo", "10.0.0.33", [town.web])
        with town.beside.netns.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
            client.settimeout(0.3)

            def asked() -> bytes:
                client.sendto(b"who", ("10.0.0.33", 81))
                return client.recv(100)

            eventually(lambda: asked() == b"web")
            town.cluster.serve("echo", [town.far])
            eventually(lambda: asked() == b"far")


@contextmanager
def echoing(netns: Namespace, name: str) -> Iterator[None]:
    """A UDP server at 8081, which tells its name."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("0.0.0.0", 8081))
        made.settimeout(0.1)
        return made

    server, ends = netns.inside(opened), threading.Event()

    def serve() -> None:
        while not ends.is_set():
            with suppress(TimeoutError):
                _, peer = server.recvfrom(100)
                server.sendto(name.encode(), peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        server.close()


def test_external_addresses_lead_to_the_service(town: Town) -> None:
    town.cluster.service("outside", "10.0.0.28", [town.far], externalIPs=["192.168.77.200"])
    eventually(lambda: town.beside.ask("192.168.77.200", 80).startswith("far "))


def test_a_host_port_leads_to_its_pod_until_that_is_detached(town: Town) -> None:
    ports = [HostPort("TCP", 8088, 8080), HostPort("TCP", 8089, 8080, "192.168.77.1")]
    pod = town.serving(town.first, "hosted", host_ports=ports)
    assert town.client.ask("192.168.77.1", 8088) == "hosted 192.168.77.100"
    assert town.client.ask("192.168.77.1", 8089) == "hosted 192.168.77.100"
    assert town.first.netns.ask("127.0.0.1", 8088).startswith("hosted ")
    assert pod.ask("192.168.77.1", 8088).startswith("hosted ")
    with pytest.raises(ConnectionRefusedError):
        town.first.netns.ask("127.0.0.1", 8089)
    town.first.detach(pod)
    eventually(lambda: _fails(town.client, "192.168.77.1", 8088))


def test_pods_reach_the_world_with_the_address_of_their_node(town: Town) -> None:
    with town.client.answering(9000, "world"):
        assert town.beside.ask("192.168.77.100", 9000) == "world 192.168.77.1"


def test_rules_that_somebody_flushed_come_back_with_the_next_change(town: Town) -> None:
    town.cluster.service("back", "10.0.0.29", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.29", 80))
    town.first.netns.run("nft flush ruleset")
    town.cluster.service("trigger", "10.0.0.30", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.29", 80) == f"web {town.beside.address}")


def test_an_agent_that_starts_again_finds_its_pods_and_breaks_no_rule_meanwhile(town: Town) -> None:
    town.cluster.service("lasting", "10.0.0.31", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.31", 80))
    town.first.stop()
    assert town.beside.ask("10.0.0.31", 80) == f"web {town.beside.address}"
    town.first.start()
    again = town.first.network.attach(town.web.netns.path, "default", "web", "uid-web", "id-web")
    assert town.first.loop.call(again) == (town.web.address,)
    town.cluster.service("later", "10.0.0.32", [town.web])
    eventually(lambda: town.beside.ask("10.0.0.32", 80) == f"web {town.beside.address}")


def test_it_asks_the_api_server_for_what_its_rules_allow_and_for_no_less(town: Town) -> None:
    allowed = {
        (verb, group, resource)
        for rule in RULES
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert town.first.api.asked | town.second.api.asked == allowed


def test_a_node_that_is_gone_has_no_route(town: Town) -> None:
    town.cluster.put(
        NODES,
        {
            "metadata": {"name": "third", "annotations": {"network.fairlead.dev/pod-subnet": "10.244.77.0/24"}},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.3"}]},
        },
    )
    eventually(lambda: "10.244.77.0/24 via 192.168.77.3" in town.first.netns.run("ip route"))
    town.cluster.delete(NODES, "third", "")
    eventually(lambda: "10.244.77.0/24" not in town.first.netns.run("ip route"))


def _fails(asker: Pod | Namespace, address: str, port: int) -> bool:
    try:
        asker.ask(address, port, 0.3)
    except OSError:
        return True
    return False
