"""Who may start, between two cycles; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import Accounting, NamespaceAccount
from fairlead.arbitrator.gates import start_allowed
from fairlead.arbitrator.grant_table import FORGOTTEN_SECONDS, GrantTable
from fairlead.arbitrator.outcomes import Division, ShareOutcome
from fairlead.runtime.loops import run_virtual
from tests.work import calls

REFUSED = "Allocation a: not enough requests.cpu is granted to this namespace now"


def pod(name: str, **spec: Any) -> Pod:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "a", "uid": name, "generation": 1}
    return encoded({"metadata": metadata, "spec": {"containers": [container], **spec}}).view(Pod)


def granted_to_a(cpu: int) -> Division:
    outcome = ShareOutcome(request={}, deserved={}, used={}, staying={}, granted={"cpu": cpu})
    return Division({}, {"a": outcome}, {})


def grant_table(cpu: int) -> GrantTable:
    found = GrantTable(Accounting())
    found.publish(granted_to_a(cpu), frozenset())
    return found


@pytest.mark.parametrize("is_known", [True, False])
def test_who_was_let_start_and_is_not_seen_again_has_given_up(is_known: bool) -> None:
    """What no event has told of is forgotten altogether: it may have been deleted before it was asked for."""

    async def play() -> None:
        grants = grant_table(1000)
        if is_known:
            grants.accounting.pod_event(None, pod("one"))
        assert (grants.ask(pod("one")), grants.ask(pod("two"))) == ("", REFUSED)
        await asyncio.sleep(FORGOTTEN_SECONDS)
        grants.expire()
        account = grants.accounting.account("a")
        assert (account.held, bool(account.asked)) == ({}, is_known)
        assert grants.ask(pod("two")) == ""

    run_virtual(play())


@pytest.mark.parametrize(
    "heard",
    [
        lambda accounting: accounting.pod_event(None, pod("one", nodeName="node-1")),
        lambda accounting: accounting.pod_event(pod("one"), pod("one", nodeName="node-1")),
    ],
)
def test_who_is_seen_on_a_node_stays(heard: Callable[[Accounting], None]) -> None:
    async def play() -> None:
        grants = grant_table(1000)
        assert grants.ask(pod("one")) == ""
        heard(grants.accounting)
        await asyncio.sleep(FORGOTTEN_SECONDS)
        grants.expire()
        kind = grants.accounting.vector(pod("one"))
        account = grants.accounting.account("a")
        assert (account.asked, account.held) == ({kind: 1}, {kind: 1})
        grants.accounting.pod_event(pod("one", nodeName="node-1"), None)
        assert grants.accounting.account("a") == NamespaceAccount()

    run_virtual(play())


def test_one_of_many_sizes_is_judged_without_looking_at_the_others() -> None:
    """Each attempt of each pod asks; what a namespace holds had been added up each time."""

    def refusal(size: int) -> None:
        grants = grant_table(0)
        for number in range(size):
            grants.accounting.pod_event(None, pod(f"p{number}", nodeName="n", overhead={"cpu": f"{number + 1}m"}))
        asked = pod("one")
        works.append(calls(lambda: grants.refusal(asked)))

    works: list[int] = []
    refusal(5)
    refusal(100)
    assert works[0] == works[1]


def test_who_is_refused_from_afar_is_remembered_until_it_may_start() -> None:
    async def play() -> None:
        grants = grant_table(0)
        assert (grants.ask_remotely(pod("one")), grants.refused) == (REFUSED, {"one": "a/one"})
        grants.publish(granted_to_a(1000), frozenset())
        assert (grants.ask_remotely(pod("one")), grants.refused) == ("", {})

    run_virtual(play())


def test_who_waits_starts_in_turn_and_of_equal_pods_one_refusal_is_enough() -> None:
    async def play() -> None:
        grants = grant_table(2000)
        asked: list[str] = []
        ask = grants.ask

        def counted(pod: Pod) -> str:
            asked.append(pod.metadata.name)
            return ask(pod)

        grants.ask = counted  # type: ignore[method-assign]
        pods = [pod("a"), pod("b"), pod("c"), pod("d"), pod("urgent", priority=1)]
        assert [pod.metadata.name for pod in start_allowed(grants, pods)] == ["urgent", "a"]
        assert asked == ["urgent", "a", "b"]

    run_virtual(play())
