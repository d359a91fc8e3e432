"""Which services a container hears of by its environment."""

from __future__ import annotations

import pytest

from fairlead.agent.pods.service_links import service_variables, with_api_server_at
from fairlead.api.encoded import encoded
from fairlead.api.services import Service


def _service(name: str, namespace: str, address: str = "10.0.0.1") -> Service:
    ports = [{"name": "web-ui", "port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    spec = {"clusterIP": address, "ports": ports}
    return encoded({"metadata": {"name": name, "namespace": namespace}, "spec": spec}).view(Service)


def test_the_variables_of_a_service() -> None:
    assert service_variables([_service("my-db", "shop")], "shop", has_links=True) == {
        "MY_DB_SERVICE_HOST": "10.0.0.1",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_WEB_UI": "80",
        "MY_DB_PORT": "tcp://10.0.0.1:80",
        "MY_DB_PORT_80_TCP": "tcp://10.0.0.1:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "10.0.0.1",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.1:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.1",
    }


def test_everybody_hears_of_the_api_server_and_of_its_own_namespace() -> None:
    services = [_service("kubernetes", "default"), _service("db", "shop"), _service("db", "other")]
    services.append(_service("headless", "shop", "None"))

    def names(*, has_links: bool) -> set[str]:
        found = service_variables(services, "shop", has_links=has_links)
        return {name.removesuffix("_SERVICE_HOST") for name in found if name.endswith("_SERVICE_HOST")}

    assert names(has_links=True) == {"KUBERNETES", "DB"}
    assert names(has_links=False) == {"KUBERNETES"}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [("https://127.0.0.1:6443", "127.0.0.1", "6443"), ("https://k8s.example.com", "k8s.example.com", "443")],
)
def test_where_no_service_leads_to_it_the_api_server_is_where_its_node_finds_it(url: str, host: str, port: str) -> None:
    services = with_api_server_at([_service("kubernetes", "default"), _service("db", "shop")], url)
    found = service_variables(services, "shop", has_links=True)
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == (host, port)
    assert found["DB_SERVICE_HOST"] == "10.0.0.1"


def test_an_ipv6_address_has_brackets_in_urls() -> None:
    found = service_variables([_service("db", "shop", "fd00::1")], "shop", has_links=True)
    assert (found["DB_SERVICE_HOST"], found["DB_PORT"]) == ("fd00::1", "tcp://[fd00::1]:80")
