"""API Priority and Fairness (issue 16): nobody starves because somebody else asks a lot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.flow_control import GROUP, PriorityLevelConfiguration, Queuing
from fairlead.api.users import AUTHENTICATED, MASTERS, User
from fairlead.kinds.flow_defaults import flow_schemas, priority_levels
from fairlead.runtime.loops import run_virtual
from fairlead.server.access import AccessRequest
from fairlead.server.fairness.fairness import WAIT_SECONDS, Admitted, Fairness, Rejected
from fairlead.server.fairness.queues import Level, Origin, deal
from fairlead.server.fairness.seats import Allotment, Seats
from tests.server.http_world import JSON, Reply, Server, serving_in_a_thread

FLOWS = f"/apis/{GROUP}/v1/flowschemas"
LEVELS = f"/apis/{GROUP}/v1/prioritylevelconfigurations"
#: A read that holds its seat: it waits until the store has a revision that it will not have.
SLOW = "/api/v1/namespaces/default?resourceVersion=999999"


def fairness(seats: int = 120) -> Fairness:
    """One that has seen the objects that every cluster has."""
    made = Fairness(seats)
    for kind, objects in (("flowschemas", flow_schemas()), ("prioritylevelconfigurations", priority_levels())):
        for obj in objects:
            made.observers[f"{kind}.{GROUP}"]("", obj["metadata"]["name"], msgspec.json.encode(obj))
    return made


def of(
    name: str, *groups: str, verb: str = "create", resource: str = "pods", namespace: str = "default"
) -> AccessRequest:
    user = User(name, (*groups, AUTHENTICATED))
    return AccessRequest(user, verb, "", "v1", resource, "", namespace)


@pytest.mark.parametrize(
    ("asked", "schema", "level"),
    [
        (of("kubernetes-admin", MASTERS), "exempt", "exempt"),
        (of("jane"), "global-default", "global-default"),
        (of("system:serviceaccount:shop:web", "system:serviceaccounts"), "service-accounts", "workload-low"),
        (of("system:serviceaccount:kube-system:job-controller"), "kube-system-service-accounts", "workload-high"),
        (of("system:kube-scheduler"), "kube-scheduler", "workload-high"),
        (of("system:node:n1", "system:nodes"), "system-nodes", "system"),
        (of("system:node:n1", "system:nodes", resource="nodes", namespace=""), "system-node-high", "node-high"),
        (AccessRequest(User("anybody", (AUTHENTICATED,)), "get", path="/readyz"), "probes", "exempt"),
        (AccessRequest(User("anybody", (AUTHENTICATED,)), "get", path="/readyz/ping"), "probes", "exempt"),
        (AccessRequest(User("anybody", (AUTHENTICATED,)), "get", path="/version"), "global-default", "global-default"),
    ],
)
def test_each_request_has_the_level_that_kubernetes_gives_it(asked: AccessRequest, schema: str, level: str) -> None:
    async def run() -> Admitted:
        return await fairness().admit(asked)

    found = run_virtual(run()).flow
    assert (found.schema.metadata.name, found.level.name) == (schema, level)


@given(st.integers(0, 2**64 - 1), st.integers(1, 10_000_000), st.integers(1, 8))
def test_a_hand_is_of_different_queues(flow: int, deck: int, hand: int) -> None:
    hand = min(hand, deck)
    dealt = deal(flow, deck, hand)
    assert len(set(dealt)) == hand
    assert all(0 <= card < deck for card in dealt)
    assert dealt == deal(flow, deck, hand)


def level_of(shares: int, lendable: int, borrowing: int | None) -> PriorityLevelConfiguration:
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "borrowingLimitPercent": borrowing}
    return msgspec.convert(
        {"metadata": {}, "spec": {"type": "Limited", "limited": limited}}, PriorityLevelConfiguration
    )


LEVELS_OF_A_SERVER = st.lists(
    st.builds(level_of, st.integers(0, 100), st.integers(0, 100), st.none() | st.integers(0, 200)),
    min_size=1,
    max_size=6,
)


@given(LEVELS_OF_A_SERVER, st.integers(1, 200), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=300))
def test_what_is_kept_for_a_level_is_there_whatever_the_others_take(
    levels: list[PriorityLevelConfiguration], total: int, steps: list[tuple[int, bool]]
) -> None:
    seats = Seats(total)
    allotments = [Allotment(0, 0, 0) for _ in levels]
    seats.divide(zip(levels, allotments, strict=True))
    for which, takes in steps:
        allotment = allotments[which % len(allotments)]
        if takes:
            seats.take(allotment, 1)
        elif allotment.in_use:
            allotment.in_use -= 1
        assert sum(each.in_use for each in allotments) <= seats.total
        assert all(each.in_use <= each.most for each in allotments)
    for allotment in allotments:
        while allotment.in_use < allotment.reserved:
            assert seats.take(allotment, 1)


def test_an_idle_cluster_lends_what_may_be_lent() -> None:
    async def run() -> int:
        server, count = fairness(), 0
        while not server.levels["global-default"].waiting:
            count += 1
            task = asyncio.create_task(server.admit(of("jane")))
            await asyncio.sleep(0)
            assert task.done() or server.levels["global-default"].waiting
        return count - 1

    nominal = 120 * 20 / 245
    assert run_virtual(run()) > 3 * nominal


def test_a_flood_of_one_user_does_not_keep_another_waiting() -> None:
    """The one finds a queue of its own, and has the next seat that is free."""

    async def run() -> list[str]:
        server, order = fairness(), []
        held = [await server.admit(of("noisy")) for _ in range(server.levels["global-default"].allotment.most)]

        async def ask(name: str) -> None:
            admitted = await server.admit(of(name))
            order.append(name)
            await asyncio.sleep(0.01)
            admitted.end()

        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(ask("noisy"))
            await asyncio.sleep(0)
            group.create_task(ask("quiet"))
            await asyncio.sleep(0)
            for admitted in held:
                admitted.end()
                await asyncio.sleep(0.01)
        return order

    assert run_virtual(run()).index("quiet") <= 1


def test_two_users_who_ask_as_much_as_they_can_have_as_much_of_it() -> None:
    async def run() -> dict[str, int]:
        server, done = fairness(), {"a": 0, "b": 0}

        async def ask(name: str, seconds: float) -> None:
            for _ in range(50):
                admitted = await server.admit(of(name))
                await asyncio.sleep(seconds)
                admitted.end()
                done[name] += 1
                if sum(done.values()) == 400:
                    raise asyncio.CancelledError

        async def ends(tasks: list[asyncio.Task[None]]) -> None:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                task.cancel()

        await ends([asyncio.create_task(ask(name, 0.01)) for name in ("a", "b") * 150])
        return done

    done = run_virtual(run())
    assert abs(done["a"] - done["b"]) < 0.2 * sum(done.values())


def test_who_waits_too_long_is_told_to_come_again_and_takes_no_seat_then() -> None:
    async def run() -> tuple[str, float, int]:
        server = fairness()
        level = server.levels["global-default"]
        held = [await server.admit(of("noisy")) for _ in range(level.allotment.most)]
        began = asyncio.get_running_loop().time()
        with pytest.raises(Rejected) as caught:
            await server.admit(of("late"))
        waited = asyncio.get_running_loop().time() - began
        gone = asyncio.create_task(server.admit(of("gone")))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        for admitted in held:
            admitted.end()
            admitted.end()  # twice is once
        return caught.value.reason, waited, level.allotment.in_use + level.waiting + level.executing

    assert run_virtual(run()) == ("time-out", WAIT_SECONDS, 0)


def test_a_long_list_takes_more_seats_than_a_read() -> None:
    async def run() -> tuple[int, int]:
        server = fairness(600)
        allotment = server.levels["global-default"].allotment
        await server.admit(of("jane"))
        one = allotment.in_use
        await server.admit(of("jane", verb="list"), 10_000)
        return one, allotment.in_use - one

    assert run_virtual(run()) == (1, 8)  # 15 % of 49 seats


def test_a_queue_that_nobody_uses_is_forgotten() -> None:
    """A level may have ten million queues, and each flow has its own."""

    async def run() -> int:
        level = Level("huge")
        level.set_queuing(Queuing(queues=10_000_000, hand_size=2, queue_length_limit=1))
        for flow in range(2000):
            turn = level.join(flow * 7919, 1, Origin(of("jane"), "s", "", 0.0, 0.0))
            level.begin(turn)
            level.finish(turn)
        return len(level._queues)

    assert run_virtual(run()) <= 600


# -- over HTTP


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread(seats=2) as running:
        yield running


def as_user(name: str) -> dict[str, str]:
    return JSON | {"impersonate-user": name, "impersonate-group": "system:test"}


def add_level(server: Server, name: str, user: str) -> None:
    """A level of one seat and one place to wait, for one user."""
    queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
    response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": 1, "limitResponse": response, "borrowingLimitPercent": 0}
    level = {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}
    assert server.ask("POST", LEVELS, level).code == 201
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rule = {"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}
    spec = {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 50, "rules": [rule]}
    assert server.ask("POST", FLOWS, {"metadata": {"name": name}, "spec": spec}).code == 201


def grant(server: Server) -> None:
    """Everybody of the test group may do everything."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    subject = {"kind": "Group", "name": "system:test", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    server.ask("POST", path, {"metadata": {"name": "test"}, "subjects": [subject], "roleRef": role})


LEVEL_COLUMNS = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
]


def dumped(server: Server, what: str) -> list[list[str]]:
    """The cells of a dump, which stand in columns."""
    reply = server.ask("GET", f"/debug/api_priority_and_fairness/{what}")
    assert (reply.code, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    lines = reply.body.decode().splitlines()
    assert len({len(line) - len(line.partition(",")[2].lstrip()) for line in lines}) == 1
    return [re.split(r", *", line) for line in lines]


def test_what_else_is_asked_of_dumps_is_refused(server: Server) -> None:
    assert server.ask("POST", "/debug/api_priority_and_fairness/dump_queues").code == 405
    assert server.ask("GET", "/debug/api_priority_and_fairness/dump_nothing").code == 404


def test_too_much_of_one_user_is_refused_and_the_others_are_served(server: Server) -> None:
    grant(server)
    add_level(server, "narrow", "greedy")
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(server.ask, "GET", SLOW, None, as_user("greedy")) for _ in range(2)]
        server.soon(lambda: "narrow" in server.fairness.levels and server.fairness.levels["narrow"].waiting == 1)
        refused = server.ask("GET", "/api/v1/namespaces/default", headers=as_user("greedy"))
        served = server.ask("GET", "/api/v1/namespaces/default", headers=as_user("modest"))
        levels, queues = dumped(server, "dump_priority_levels"), dumped(server, "dump_queues")
        requests = dumped(server, "dump_requests?includeRequestDetails=1")
        assert [future.result().code for future in slow] == [504, 504]
    narrow = ["narrow", "1", "false", "false", "1", "1", "1", "1", "0", "0"]
    assert [row for row in levels if row[0] in ("PriorityLevelName", "narrow")] == [LEVEL_COLUMNS, narrow]
    assert [row[:5] for row in queues if row[0] == "narrow"] == [["narrow", "0", "1", "1", "1"]]
    [waits, works] = [row for row in requests if row[0] == "narrow"]
    assert (waits[1:5], works[1:5]) == (["narrow", "0", "0", ""], ["narrow", "0", "-1", ""])
    assert waits[9] == "0001-01-01T00:00:00Z" < works[5] <= works[9]
    asked = ["greedy", "get", "/api/v1/namespaces/default", "default", "default", "v1", "namespaces", ""]
    assert waits[10:] == works[10:] == asked
    [own] = [row for row in requests if row[0] == "exempt"]  # of who asks
    assert own[12].startswith("/debug/")
    assert (refused.code, refused.headers["retry-after"]) == (429, "1")
    assert refused.body == b"Too many requests, please try again later.\n"
    assert served.code == 200
    assert uids(refused) == (uid(server, FLOWS, "narrow"), uid(server, LEVELS, "narrow"))
    assert uids(served) == (uid(server, FLOWS, "global-default"), uid(server, LEVELS, "global-default"))
    metrics = server.ask("GET", "/metrics").body.decode()
    for name, count in (("rejected", 1), ("dispatched", 2)):
        lines = [
            line for line in metrics.splitlines() if line.startswith(f"apiserver_flowcontrol_{name}_requests_total")
        ]
        assert sum(float(line.split()[1]) for line in lines if 'priority_level="narrow"' in line) == count, lines
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="narrow"} 1' in metrics
    place = 'group="",resource="namespaces",scope="resource",subresource="",verb="GET",version="v1"'
    assert f'apiserver_request_total{{code="429",component="apiserver",dry_run="",{place}}} 1\n' in metrics
    assert f'apiserver_request_terminations_total{{code="429",component="apiserver",{place}}} 1\n' in metrics


def uids(reply: Reply) -> tuple[str, str]:
    return reply.headers["x-kubernetes-pf-flowschema-uid"], reply.headers["x-kubernetes-pf-prioritylevel-uid"]


def uid(server: Server, path: str, name: str) -> str:
    found: str = server.ask("GET", f"{path}/{name}").obj["metadata"]["uid"]
    return found


def test_a_watch_that_has_begun_takes_no_seat(server: Server) -> None:
    grant(server)
    add_level(server, "watchers", "watcher")
    connections = [server.connection() for _ in range(5)]
    for connection in connections:
        connection.request("GET", "/api/v1/configmaps?watch=1", headers=as_user("watcher"))
        response = connection.getresponse()
        assert response.status == 200
        assert response.headers["x-kubernetes-pf-flowschema-uid"] == uid(server, FLOWS, "watchers")
    for connection in connections:
        connection.close()


def test_what_every_cluster_has_comes_back(server: Server) -> None:
    for path in (f"{FLOWS}/probes", f"{FLOWS}/catch-all", f"{LEVELS}/workload-low"):
        first = server.ask("GET", path).obj
        assert server.ask("DELETE", path).code == 200
        server.soon(lambda path=path: server.ask("GET", path).code == 200)  # type: ignore[misc]
        again = server.ask("GET", path).obj
        assert again["spec"] == first["spec"]
        assert again["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "true"}


def test_what_its_owner_keeps_is_left_alone(server: Server) -> None:
    path = f"{LEVELS}/leader-election"
    level = server.ask("GET", path).obj
    level["metadata"]["annotations"] = {"apf.kubernetes.io/autoupdate-spec": "false"}
    level["spec"]["limited"]["nominalConcurrencyShares"] = 11
    assert server.ask("PUT", path, level).code == 200
    assert server.ask("DELETE", f"{FLOWS}/probes").code == 200
    server.soon(lambda: server.ask("GET", f"{FLOWS}/probes").code == 200)  # they have been looked at
    assert server.ask("GET", path).obj["spec"]["limited"]["nominalConcurrencyShares"] == 11


def test_a_schema_says_whether_its_level_is_there(server: Server) -> None:
    spec = {"priorityLevelConfiguration": {"name": "later"}, "matchingPrecedence": 7000}
    assert server.ask("POST", FLOWS, {"metadata": {"name": "early"}, "spec": spec}).code == 201

    def dangling() -> Any:
        conditions = server.ask("GET", f"{FLOWS}/early").obj.get("status", {}).get("conditions") or [{}]
        return {key: conditions[0].get(key) for key in ("type", "status", "reason", "message")}

    text = 'This FlowSchema references the PriorityLevelConfiguration object named "later"'
    missing = {
        "type": "Dangling",
        "status": "True",
        "reason": "NotFound",
        "message": f"{text} but there is no such object",
    }
    server.soon(lambda: dangling() == missing)
    level = {
        "metadata": {"name": "later"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    assert server.ask("POST", LEVELS, level).code == 201
    found = {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{text} and it exists"}
    server.soon(lambda: dangling() == found)


@pytest.mark.parametrize(
    ("path", "name", "spec", "message"),
    [
        (
            LEVELS,
            "l",
            {"type": "Exempt"},
            "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if ",
        ),
        (LEVELS, "l", {"type": "Limited"}, "spec.limited: Required value: must not be empty when type is Limited"),
        (
            LEVELS,
            "l",
            {
                "type": "Limited",
                "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 65}}},
            },
            "handSize: Invalid value: 65: should not be greater than queues (64)",
        ),
        (
            LEVELS,
            "l",
            {
                "type": "Limited",
                "limited": {
                    "limitResponse": {"type": "Queue", "queuing": {"queues": 10_000_000, "handSize": 2**31 - 1}}
                },
            },
            "should not be greater than queues (10000000)",
        ),
        (
            LEVELS,
            "l",
            {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"handSize": 12}}}},
            "required entropy bits of deckSize 64 and handSize 12 should not be greater than 60",
        ),
        (LEVELS, "catch-all", {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}, "fixed value"),
        (
            FLOWS,
            "f",
            {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 1},
            "only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (FLOWS, "f", {"priorityLevelConfiguration": {"name": ""}}, "must reference a priority level"),
        (
            FLOWS,
            "f",
            {"priorityLevelConfiguration": {"name": "x"}, "rules": [{"subjects": [{"kind": "User"}]}]},
            "user is required when subject kind is 'User'",
        ),
    ],
)
def test_bad_objects_are_refused(server: Server, path: str, name: str, spec: Any, message: str) -> None:
    if name == "catch-all":
        obj = server.ask("GET", f"{path}/{name}").obj
        reply = server.ask("PUT", f"{path}/{name}", obj | {"spec": spec})
    else:
        reply = server.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
    assert reply.code == 422
    assert message in reply.obj["message"]
