"""What is answered about names of services, over the wire."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.network.dns.answers import BadQuestion, Resolver
from fairlead.agent.network.dns.records import Answer, Zone
from fairlead.agent.network.dns.server import MOST_CONNECTIONS, DnsServer
from fairlead.agent.network.dns.upstream import Upstream, name_servers
from fairlead.agent.network.views import EndpointSlice, Service

Obj = dict[str, Any]


class Book:
    """A directory of the objects that it is given."""

    def __init__(self, services: list[Obj], slices: list[Obj]) -> None:
        self._services = [msgspec.convert(obj, Service) for obj in services]
        self._slices = [msgspec.convert(obj, EndpointSlice) for obj in slices]

    def has_namespace(self, name: str) -> bool:
        return name in ("shop", "default")

    def service(self, namespace: str, name: str) -> Service | None:
        return next((entry for entry in self._services if entry.metadata.key == f"{namespace}/{name}"), None)

    def slices(self, service: Service) -> list[EndpointSlice]:
        return [piece for piece in self._slices if piece.service_key == service.metadata.key]

    def services_at(self, address: str) -> list[Service]:
        return [entry for entry in self._services if address in entry.addresses]

    def slices_at(self, address: str) -> list[EndpointSlice]:
        return [
            piece for piece in self._slices if any(address in endpoint.addresses for endpoint in piece.endpoints or ())
        ]


def service(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def piece(service_name: str, *endpoints: Obj, family: str = "IPv4") -> Obj:
    labels = {"kubernetes.io/service-name": service_name}
    return {
        "metadata": {"name": f"{service_name}-{family}", "namespace": "shop", "labels": labels},
        "addressType": family,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


WEB_PORTS = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
BOOK = Book(
    [
        service("web", clusterIP="10.0.0.7", clusterIPs=["10.0.0.7", "fd00::7"], ports=WEB_PORTS),
        service("db", clusterIP="None", clusterIPs=["None"]),
        service("idle", clusterIP="None", clusterIPs=["None"]),
        service("out", type="ExternalName", externalName="example.org"),
        service("round", type="ExternalName", externalName="web.shop.svc.cluster.local"),
        service("loop", type="ExternalName", externalName="loop.shop.svc.cluster.local"),
        service("wide", clusterIP="None", clusterIPs=["None"]),
    ],
    [
        piece(
            "db",
            {"addresses": ["10.244.0.2"], "hostname": "db-0"},
            {"addresses": ["10.244.1.3"]},
            {"addresses": ["10.244.1.4"], "conditions": {"ready": False}},
        ),
        piece("db", {"addresses": ["fd00::2"], "hostname": "db-0"}, family="IPv6"),
        piece("wide", *({"addresses": [f"10.245.{n // 250}.{n % 250 + 1}"]} for n in range(2000))),
    ],
)
ZONE = Zone("cluster.local", BOOK)


def looked_up(name: str, type_: str) -> set[str] | None:
    """The values; None for a name that does not exist."""
    answer = ZONE.answer(name, type_)
    assert answer is not None
    return {record.value for record in answer.records} if answer.exists else None


@pytest.mark.parametrize(
    ("name", "type_", "expected"),
    [
        ("web.shop.svc.cluster.local", "A", {"10.0.0.7"}),
        ("web.shop.svc.cluster.local", "AAAA", {"fd00::7"}),
        ("web.shop.svc.cluster.local", "MX", set()),
        ("web.default.svc.cluster.local", "A", None),
        ("a.web.shop.svc.cluster.local", "A", None),
        ("_http._tcp.web.shop.svc.cluster.local", "SRV", {"0 100 80 web.shop.svc.cluster.local."}),
        ("_dns._udp.web.shop.svc.cluster.local", "SRV", {"0 100 53 web.shop.svc.cluster.local."}),
        ("_dns._tcp.web.shop.svc.cluster.local", "SRV", None),
        ("_http._tcp.web.shop.svc.cluster.local", "A", set()),
        ("db.shop.svc.cluster.local", "A", {"10.244.0.2", "10.244.1.3"}),
        ("db.shop.svc.cluster.local", "AAAA", {"fd00::2"}),
        ("idle.shop.svc.cluster.local", "A", None),
        ("db-0.db.shop.svc.cluster.local", "A", {"10.244.0.2"}),
        ("db-0.db.shop.svc.cluster.local", "AAAA", {"fd00::2"}),
        ("10-244-1-3.db.shop.svc.cluster.local", "A", {"10.244.1.3"}),
        ("db-9.db.shop.svc.cluster.local", "A", None),
        (
            "_http._tcp.db.shop.svc.cluster.local",
            "SRV",
            {"0 50 8080 db-0.db.shop.svc.cluster.local.", "0 50 8080 10-244-1-3.db.shop.svc.cluster.local."},
        ),
        ("out.shop.svc.cluster.local", "A", {"example.org."}),
        ("shop.svc.cluster.local", "A", set()),
        ("nowhere.svc.cluster.local", "A", None),
        ("cluster.local", "A", set()),
        ("other.cluster.local", "A", None),
        ("dns-version.cluster.local", "TXT", {'"1.1.0"'}),
        ("10-1-2-3.shop.pod.cluster.local", "A", {"10.1.2.3"}),
        ("fd00--1.shop.pod.cluster.local", "AAAA", {"fd00::1"}),
        ("10-1-2-3.nowhere.pod.cluster.local", "A", None),
        ("nonsense.shop.pod.cluster.local", "A", None),
        ("7.0.0.10.in-addr.arpa", "PTR", {"web.shop.svc.cluster.local."}),
        ("2.0.244.10.in-addr.arpa", "PTR", {"db-0.db.shop.svc.cluster.local."}),
        ("3.1.244.10.in-addr.arpa", "PTR", {"10-244-1-3.db.shop.svc.cluster.local."}),
        (f"7.{'0.' * 27}0.0.d.f.ip6.arpa", "PTR", {"web.shop.svc.cluster.local."}),
    ],
)
def test_records(name: str, type_: str, expected: set[str] | None) -> None:
    assert looked_up(name, type_) == expected


@pytest.mark.parametrize("name", ["example.org", "1.1.1.1.in-addr.arpa", "1.in-addr.arpa", "notcluster.local"])
def test_names_of_the_world_are_not_ours(name: str) -> None:
    assert ZONE.answer(name, "A") is None


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60), st.sampled_from(["A", "SRV", "PTR"]))
def test_no_name_is_too_strange_for_an_answer(name: str, type_: str) -> None:
    for suffix in ("", ".cluster.local", ".shop.svc.cluster.local", ".in-addr.arpa", ".pod.cluster.local"):
        answer = ZONE.answer(f"{name}{suffix}".lower(), type_)
        assert answer is None or isinstance(answer, Answer)


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


class Served:
    """A server on this machine's loopback, and the world's server that it asks; both answer real questions."""

    def __init__(self, folder: Path, world: bool = True) -> None:
        self.port, self._world_port = free_port(), free_port()
        conf = folder / "resolv.conf"
        conf.write_bytes(b"# of Z\xfcrich, in Latin-1\n" + (b"nameserver 127.0.0.1\n" if world else b""))
        self._server = DnsServer(
            Resolver("cluster.local", ZONE, Upstream(conf, "-", self._world_port)), "127.0.0.1", self.port
        )
        there = Book([service("www", clusterIP="93.184.215.14", clusterIPs=["93.184.215.14"])], [])
        nobody = Upstream(folder / "none", "-")
        self._world = DnsServer(Resolver("org", _World("org", there), nobody), "127.0.0.1", self._world_port)

    async def __aenter__(self) -> Served:
        self._tasks = [asyncio.create_task(self._server.run()), asyncio.create_task(self._world.run())]
        for port in (self.port, self._world_port):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)
            writer.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, name: str, type_: str = "A", **options: Any) -> dns.message.Message:
        query = dns.message.make_query(name, type_, **options)
        return await dns.asyncquery.udp(query, "127.0.0.1", timeout=5, port=self.port)


class _World(Zone):
    """A server that knows example.org alone."""

    def answer(self, name: str, type_: str) -> Answer | None:
        if name == "example.org":
            return super().answer("www.shop.svc.org", type_)
        return Answer(exists=False)


def serving(folder: Path, test: Callable[[Served], Awaitable[None]], *, world: bool = True) -> None:
    async def main() -> None:
        async with Served(folder, world) as served:
            await test(served)

    asyncio.run(main())


def values(answer: dns.message.Message) -> list[str]:
    return [rdata.to_text() for rrset in answer.answer for rdata in rrset]


def test_a_real_client_is_answered_in_its_own_spelling(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        answer = await served.ask("WEB.shop.svc.Cluster.local")
        assert values(answer) == ["10.0.0.7"]
        assert answer.answer[0].name.to_text() == "WEB.shop.svc.Cluster.local."
        assert answer.flags & dns.flags.AA
        missing = await served.ask("none.shop.svc.cluster.local")
        assert missing.rcode() == dns.rcode.NXDOMAIN
        assert missing.authority[0].rdtype == dns.rdatatype.SOA
        nothing = await served.ask("web.shop.svc.cluster.local", "MX")
        assert (nothing.rcode(), nothing.answer) == (dns.rcode.NOERROR, [])
        service_record = await served.ask("_http._tcp.web.shop.svc.cluster.local", "SRV")
        assert {rrset.rdtype for rrset in service_record.additional} == {dns.rdatatype.A, dns.rdatatype.AAAA}

    serving(tmp_path, test)


def test_names_of_the_world_and_aliases_of_them_are_asked_upstream(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        assert values(await served.ask("example.org")) == ["93.184.215.14"]
        assert (await served.ask("nothing.example.com")).rcode() == dns.rcode.NXDOMAIN
        assert values(await served.ask("out.shop.svc.cluster.local")) == ["example.org.", "93.184.215.14"]
        assert values(await served.ask("out.shop.svc.cluster.local", "CNAME")) == ["example.org."]

    serving(tmp_path, test)


def test_aliases_within_the_cluster_are_followed_and_not_for_ever(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        assert values(await served.ask("round.shop.svc.cluster.local")) == ["web.shop.svc.cluster.local.", "10.0.0.7"]
        looped = await served.ask("loop.shop.svc.cluster.local")
        assert set(values(looped)) == {"loop.shop.svc.cluster.local."}

    serving(tmp_path, test)


def test_without_an_upstream_the_world_fails_and_services_are_found(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        assert (await served.ask("example.org")).rcode() == dns.rcode.SERVFAIL
        assert values(await served.ask("web.shop.svc.cluster.local")) == ["10.0.0.7"]

    serving(tmp_path, test, world=False)


def test_large_answers_are_cut_over_udp_and_whole_over_tcp(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        name = "wide.shop.svc.cluster.local"
        small = await served.ask(name)
        assert small.flags & dns.flags.TC
        assert len(small.to_wire()) <= 512
        larger = await served.ask(name, use_edns=0, payload=4096)
        assert larger.flags & dns.flags.TC
        assert len(larger.to_wire()) <= 1232
        whole = await dns.asyncquery.tcp(dns.message.make_query(name, "A"), "127.0.0.1", timeout=5, port=served.port)
        assert len(values(whole)) == 500

    serving(tmp_path, test)


def test_nonsense_is_not_answered_and_what_is_not_done_is_said(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", served.port))
            for nonsense in (b"", b"\0" * 5, b"\xff" * 3000, dns.message.make_query("a", "A").to_wire()[:-3]):
                await loop.sock_sendall(client, nonsense)
        answered = dns.message.make_response(dns.message.make_query("web.shop.svc.cluster.local", "A")).to_wire()
        with pytest.raises(BadQuestion):
            await Resolver("cluster.local", ZONE, Upstream(tmp_path, "-")).resolve(answered, over_tcp=False)
        update = dns.message.make_query("web.shop.svc.cluster.local", "A")
        update.set_opcode(4)  # type: ignore[arg-type]  # NOTIFY
        reply = await dns.asyncquery.udp(update, "127.0.0.1", timeout=5, port=served.port)
        assert reply.rcode() == dns.rcode.NOTIMP
        assert values(await served.ask("web.shop.svc.cluster.local")) == ["10.0.0.7"]

    serving(tmp_path, test)


def test_connections_are_bounded_and_the_others_are_served(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        held = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(MOST_CONNECTIONS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        assert await reader.read() == b""
        writer.close()
        assert values(await served.ask("web.shop.svc.cluster.local")) == ["10.0.0.7"]
        for _, other in held:
            other.close()

    serving(tmp_path, test)


@given(st.binary(max_size=300))
def test_no_datagram_breaks_the_resolver(wire: bytes) -> None:
    async def ask() -> None:
        resolver = Resolver("cluster.local", ZONE, Upstream(Path("/nonexistent"), "-"))
        for question in (wire, dns.message.make_query("x.cluster.local", "A").to_wire()[:12] + wire):
            try:
                dns.message.from_wire(await resolver.resolve(question, over_tcp=False))
            except BadQuestion:
                continue

    asyncio.run(ask())


def test_servers_of_this_machine_are_read_and_never_ourselves() -> None:
    text = "# a comment\nnameserver 10.0.0.10\nnameserver 1.1.1.1\nnameserver x\nnameserver fe80::1%eth0\nsearch a b\n"
    assert name_servers(text, "10.0.0.10") == ["1.1.1.1", "fe80::1%eth0"]
