"""The arbitrator's listener over real sockets: who may ask, and what the extender answers to the letter."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from aiohttp import ClientConnectionError

from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.arbitrator.outcomes import Division, ShareOutcome
from fairlead.arbitrator.review import ReviewContext
from fairlead.arbitrator.serving import ListenAddress, ListenerState, Tls, check_listener
from fairlead.runtime.metrics import MetricsRegistry
from tests.arbitrator.listening import Authority, Client, listening, run

Obj = dict[str, Any]

WORLD = ReviewContext(nodes=list, consumers=list, groups=list, quotas=lambda _: [])
REFUSAL = "Allocation a: not enough requests.cpu is granted to this namespace now"


def grants(cpu: int) -> GrantTable:
    """Namespace `a` was granted that many milli-CPUs."""
    found = GrantTable(Accounting())
    outcome = ShareOutcome(request={}, deserved={}, used={}, staying={}, granted={"cpu": cpu})
    found.publish(Division({}, {"a": outcome}, {}), frozenset())
    return found


def state(cpu: int = 1000) -> ListenerState:
    return ListenerState(MetricsRegistry(), WORLD, grants(cpu))


def pod(name: str, namespace: str = "a") -> Obj:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [container]},
        "status": {},
    }


def by_name(name: str) -> Obj:
    return {"Pod": pod(name), "Nodes": None, "NodeNames": ["node-1", "node-2"]}


def whole(name: str) -> Obj:
    nodes = [{"metadata": {"name": name, "labels": {"é": "x"}}, "spec": {}} for name in ("node-1", "node-2")]
    return {"Pod": pod(name), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}


# --- the extender ---------------------------------------------------------------------------------------------------


def test_a_granted_pod_may_go_to_all_nodes_that_were_asked_about() -> None:
    """S2-44: the exact `ExtenderFilterResult`, for both ways of asking."""

    async def act() -> None:
        async with listening(state(2000)) as client:
            rest = {"FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
            asked = by_name("one")
            assert await client.post("/filter", asked) == (200, {"Nodes": None, "NodeNames": asked["NodeNames"]} | rest)
            asked = whole("two")
            assert await client.post("/filter", asked) == (200, {"Nodes": asked["Nodes"], "NodeNames": None} | rest)

    run(act)


def test_a_pod_that_is_not_granted_may_go_nowhere_and_preemption_would_not_help() -> None:
    async def act() -> None:
        async with listening(state(500)) as client:
            rest = {
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {"node-1": REFUSAL, "node-2": REFUSAL},
                "Error": "",
            }
            assert await client.post("/filter", by_name("one")) == (200, {"Nodes": None, "NodeNames": []} | rest)
            nothing: Obj = {"metadata": {}, "items": []}
            assert await client.post("/filter", whole("one")) == (200, {"Nodes": nothing, "NodeNames": None} | rest)

    run(act)


def test_of_many_nodes_it_is_not_said_why_each_is_refused() -> None:
    async def act() -> None:
        async with listening(state(500)) as client:
            names = [f"node-{number:04}" for number in range(5000)]
            _, found = await client.post("/filter", by_name("one") | {"NodeNames": names})
            assert found["NodeNames"] == []
            assert found["FailedAndUnresolvableNodes"] == dict.fromkeys(names[:100], REFUSAL)

    run(act)


def test_who_may_start_is_counted_at_once_and_once() -> None:
    async def act() -> None:
        async with listening(state(1000)) as client:

            async def may_start(name: str) -> bool:
                _, found = await client.post("/filter", by_name(name))
                return bool(found["NodeNames"])

            assert [await may_start(name) for name in ("one", "one", "two", "one")] == [True, True, False, True]

    run(act)


def test_nobody_is_driven_away_for_a_pod_that_may_not_start() -> None:
    """For both ways of asking; the answer names victims by their uid."""
    by_uid = {"node-1": {"Pods": [{"UID": "uid-of-victim"}], "NumPDBViolations": 1}}
    in_full = {"node-1": {"Pods": [pod("victim")], "NumPDBViolations": 1}}

    async def act() -> None:
        for cpu, left in ((1000, by_uid), (500, {})):
            async with listening(state(cpu)) as client:
                for meta, victims in ((by_uid, None), (None, in_full)):
                    asked = {"Pod": pod("one"), "NodeNameToVictims": victims, "NodeNameToMetaVictims": meta}
                    assert await client.post("/preempt", asked) == (200, {"NodeNameToMetaVictims": left})

    run(act)


def test_who_does_not_lead_answers_nothing_so_that_no_pod_starts_uncounted() -> None:
    async def act() -> None:
        served = state()
        leads = [True]
        served.is_leading = lambda: leads[0]
        async with listening(served) as client:
            assert (await client.post("/filter", by_name("one")))[0] == 200
            leads[0] = False
            assert await client.post("/filter", by_name("one")) == (503, "not leading, or not yet informed")
            leads[0], served.grants = True, None
            assert (await client.post("/filter", by_name("one")))[0] == 503

    run(act)


#: In whatever asks about a pod.
_NO_UTF8: Final = b'{"Pod":{"metadata":{"name":"\xff"}},"request":{"uid":"\xff"}}'
_TOO_DEEP: Final = b'{"request":{"object":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_002
_NO_QUESTIONS: Final = [b"", b"{", b"[]", b'{"Nodes":null}', b'{"Pod":{"metadata":{"name":1}}}', _NO_UTF8, _TOO_DEEP]


@pytest.mark.parametrize("body", _NO_QUESTIONS, ids=range(len(_NO_QUESTIONS)))
@pytest.mark.parametrize("path", ["/filter", "/preempt", "/validate", "/gate"])
def test_what_is_no_question_is_a_bad_request(path: str, body: bytes) -> None:
    """And no traceback in the log."""

    async def act() -> None:
        async with listening(state()) as client:
            status, text = await client.post(path, body)
            assert (status, text.startswith(f"{path}: ")) == (400, True)

    run(act)


def test_only_schedulers_may_send_much() -> None:
    async def act() -> None:
        async with listening(state()) as client:
            names = [f"node-{number:0200}" for number in range(50_000)]
            assert (await client.post("/filter", by_name("one") | {"NodeNames": names}))[0] == 200
            for path in ("/gate", "/validate"):
                assert (await client.post(path, b" " * (9 << 20)))[0] == 413

    run(act)


async def begun(port: int, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stranger who sends all of a review but its last byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (size, b" " * (size - 1)))
    await writer.drain()
    return reader, writer


def test_strangers_who_send_much_and_never_end_hold_little() -> None:
    """800 of them held 8 GB. Those that have come first go first, and an API server is answered meanwhile."""

    async def act() -> None:
        async with listening(state()) as client:
            strangers = [await begun(client.port, 8 << 20) for _ in range(12)]
            asked = review("Consumer", custom("Consumer", hard={"requests.cpu": 2}))
            assert (await answered(client, "/validate", asked))["allowed"]
            for gone, _ in strangers[:4]:
                with contextlib.suppress(ConnectionResetError):
                    assert await gone.read() == b""
            assert not strangers[-1][0].at_eof()

    run(act)


@pytest.mark.parametrize("path", ["/validate", "/gate"])
@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": 1, "spec": {}},
        {"metadata": {"name": 1, "labels": []}, "spec": []},
        {"metadata": {"name": "x"}, "spec": {"hard": [1], "parent": {}, "weight": "x", "schedulingGates": ["x", 1]}},
        {"metadata": {"name": "x"}, "spec": {"schedulingGates": {"a": 1}, "deserved": "all", "reserved": {"cpu": []}}},
    ],
)
def test_objects_that_no_api_server_sends_are_answered(path: str, odd: Obj) -> None:
    """And are no traceback in the log."""

    async def act() -> None:
        async with listening(state()) as client:
            for kind in ("Pod", "Consumer", "ConsumerGroup", "ArbitratorPolicy"):
                status, _ = await client.post(path, review(kind, odd | {"apiVersion": "v1", "kind": kind}))
                assert status in (200, 400)

    run(act)


# --- the webhooks ---------------------------------------------------------------------------------------------------


def review(kind: str, obj: Obj | None, operation: str = "CREATE", user: str = "jane", **more: Any) -> Obj:
    group = "" if kind == "Pod" else "kube-arbitrator.incubator.k8s.io"
    request = {
        "uid": "705ab4f5",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": f"{kind.lower()}s"},
        "name": "defaults",
        "namespace": "a",
        "operation": operation,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request | more}


def custom(kind: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "kube-arbitrator.incubator.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "defaults"},
        "spec": spec,
    }


async def answered(client: Client, path: str, asked: Obj) -> Obj:
    status, found = await client.post(path, asked)
    assert (status, found["kind"], found["apiVersion"]) == (200, "AdmissionReview", "admission.k8s.io/v1")
    response: Obj = found["response"]
    assert response.pop("uid") == "705ab4f5"
    return response


def test_a_consumer_is_reviewed() -> None:
    async def act() -> None:
        async with listening(state()) as client:
            good = custom("Consumer", hard={"requests.cpu": 2}, parent="zone")
            assert await answered(client, "/validate", review("Consumer", good)) == {
                "allowed": True,
                "warnings": ['spec.parent: there is no ConsumerGroup "zone" yet'],
            }
            bad = await answered(client, "/validate", review("Consumer", custom("Consumer", weight=-1)))
            assert (bad["allowed"], bad["status"]["code"], bad["status"]["reason"]) == (False, 422, "Invalid")
            assert "spec.weight: Invalid value: -1" in bad["status"]["message"]
            assert await answered(client, "/validate", review("Consumer", None, "DELETE")) == {"allowed": True}

    run(act)


def test_only_arbitrators_write_allocations() -> None:
    """S2-18, S2-22."""

    async def act() -> None:
        served = state()
        served.arbitrators = frozenset({"system:serviceaccount:fairlead:arbitrator"})
        async with listening(served) as client:
            asked = review("Allocation", custom("Allocation"), subResource="status")
            assert (await answered(client, "/validate", asked))["status"]["code"] == 403
            (own,) = served.arbitrators
            for user, groups in ((own, []), ("kubernetes-admin", ["system:masters"])):
                for obj, operation in ((custom("Allocation"), "UPDATE"), (None, "DELETE")):
                    asked = review("Allocation", obj, operation, userInfo={"username": user, "groups": groups})
                    assert (await answered(client, "/validate", asked))["allowed"] is (user == own)
            emptying = "system:serviceaccount:kube-system:namespace-controller"
            asked = review("Allocation", None, "DELETE", oldObject=custom("Allocation"), user=emptying)
            assert await answered(client, "/validate", asked) == {"allowed": True}

    run(act)


def test_before_it_is_informed_reviews_are_put_off_and_it_is_not_ready() -> None:
    async def act() -> None:
        served = ListenerState(MetricsRegistry())
        async with listening(served) as client:
            assert (await client.get("/readyz"))[0] == 503
            assert (await client.post("/validate", review("Consumer", custom("Consumer"))))[0] == 503
            assert await client.get("/healthz") == (200, "ok")
            served.context = WORLD
            assert await client.get("/readyz") == (200, "ok")

    run(act)


GATE = {"name": "kube-arbitrator.incubator.k8s.io/allocation"}


@pytest.mark.parametrize(
    ("spec", "namespace", "patch"),
    [
        ({}, "a", [{"op": "add", "path": "/spec/schedulingGates", "value": [GATE]}]),
        (
            {"schedulingGates": [{"name": "x"}]},
            "a",
            [{"op": "add", "path": "/spec/schedulingGates/-", "value": GATE}],
        ),
        ({"schedulingGates": [GATE]}, "a", None),
        ({"nodeName": "node-1"}, "a", None),
        ({}, "kube-system", None),
    ],
)
def test_a_new_pod_gets_a_gate(spec: Obj, namespace: str, patch: list[Obj] | None) -> None:
    async def act() -> None:
        async with listening(state()) as client:
            asked = review("Pod", pod("one") | {"spec": spec}, namespace=namespace)
            found = await answered(client, "/gate", asked)
            assert found["allowed"] and found.get("patchType") == ("JSONPatch" if patch else None)
            assert msgspec.json.decode(b64decode(found.get("patch", b64encode(b"null")))) == patch

    run(act)


# --- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:9443", "127.0.0.1", 9443, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:9443", "::1", 9443, True),
        (":9443", "", 9443, False),
        ("0.0.0.0:0", "0.0.0.0", 0, False),
        ("[::]:443", "::", 443, False),
        ("example.org:443", "example.org", 443, False),
    ],
)
def test_addresses(text: str, host: str, port: int, is_loopback: bool) -> None:
    found = ListenAddress.parse(text)
    assert (found.host, found.port, found.is_loopback) == (host, port, is_loopback)


@pytest.mark.parametrize("text", ["", "9443", "host", "host:", "host:x", "host:70000", "host:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        ListenAddress.parse(text)


def test_beyond_this_machine_it_needs_tls() -> None:
    with pytest.raises(ValueError, match=r"every address is not loopback.*--tls-cert-file"):
        check_listener(ListenAddress("", 9443), None)
    check_listener(ListenAddress("127.0.0.1", 9443), None)


def test_the_extender_and_the_metrics_are_for_those_with_a_certificate(tmp_path: Path) -> None:
    """The API server calls webhooks without one. The listener is on every address here, so nothing is waved through."""
    authority, stranger = Authority(tmp_path), Authority(_folder(tmp_path / "stranger"))
    tls = Tls(*authority.issue("server"), client_ca=authority.certificate)

    async def act() -> None:
        async with listening(state(), tls, "0.0.0.0", authority.client()) as client:
            assert (await client.post("/filter", by_name("one")))[0] == 403
            assert (await client.get("/metrics"))[0] == 403
            assert (await client.post("/validate", review("Consumer", custom("Consumer"))))[0] == 200
            assert (await client.post("/gate", review("Pod", pod("one"))))[0] == 200
            assert await client.get("/healthz") == (200, "ok")
        async with listening(state(), tls, "0.0.0.0", authority.client("scheduler")) as client:
            assert (await client.post("/filter", by_name("one")))[0] == 200
            assert (await client.get("/metrics"))[0] == 200
        foreign = authority.client()
        foreign.load_cert_chain(*stranger.issue("scheduler"))
        async with listening(state(), tls, "0.0.0.0", foreign) as client:
            with pytest.raises(ClientConnectionError):  # refused, or cut off: as the version of Python tells it
                await client.post("/filter", by_name("one"))

    run(act)


def test_without_an_authority_nobody_has_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def act() -> None:
        tls = Tls(*authority.issue("server"))
        async with listening(state(), tls, "0.0.0.0", authority.client("scheduler")) as client:
            assert (await client.post("/filter", by_name("one")))[0] == 403

    run(act)


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not whole yet is left for the next look."""
    monkeypatch.setattr("fairlead.arbitrator.serving.LOOK_SECONDS", 0.01)
    old, new = Authority(_folder(tmp_path / "old")), Authority(_folder(tmp_path / "new"))
    certificate, key = old.issue("server")

    async def act() -> None:
        async with listening(state(), Tls(certificate, key), client=new.client()) as client:
            with pytest.raises(OSError):
                await client.get("/healthz")
            renewed, its_key = new.issue("server")
            certificate.write_bytes(renewed.read_bytes())
            await asyncio.sleep(0.05)
            key.write_bytes(its_key.read_bytes())
            async with asyncio.timeout(10):
                while True:
                    try:
                        assert await client.get("/healthz") == (200, "ok")
                        return
                    except OSError:
                        await asyncio.sleep(0.01)

    run(act)


def test_metrics_are_told_on_this_machine() -> None:
    async def act() -> None:
        metrics = ArbitratorMetrics()
        metrics.proposed("a")
        async with listening(ListenerState(MetricsRegistry(*metrics.families))) as client:
            status, text = await client.get("/metrics")
            assert status == 200
            assert 'fairlead_arbitrator_reclaim_proposals_total{namespace="a"} 1' in text.splitlines()

    run(act)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
