"""Who may start, between two cycles; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import Account, Books
from fairlead.arbitrator.gates import let_start
from fairlead.arbitrator.ledger import FORGOTTEN_SECONDS, Ledger
from fairlead.runtime.loops import run_virtual

REFUSED = "Allocation a: not enough requests.cpu is granted to this namespace now"


def pod(name: str, **spec: Any) -> Pod:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "a", "uid": name, "generation": 1}
    return encoded({"metadata": metadata, "spec": {"containers": [container], **spec}}).view(Pod)


def ledger(cpu: int) -> Ledger:
    found = Ledger(Books())
    found.publish({"a": {"cpu": cpu}}, frozenset())
    return found


@pytest.mark.parametrize("is_known", [True, False])
def test_who_was_let_start_and_is_not_seen_again_has_given_up(is_known: bool) -> None:
    """What no event has told of is forgotten altogether: it may have been deleted before it was asked for."""

    async def play() -> None:
        one = ledger(1000)
        if is_known:
            one.books.pod_event(None, pod("one"))
        assert (one.ask(pod("one")), one.ask(pod("two"))) == ("", REFUSED)
        await asyncio.sleep(FORGOTTEN_SECONDS)
        one.expire()
        account = one.books.accounts["a"]
        assert (account.held, bool(account.asked)) == ({}, is_known)
        assert one.ask(pod("two")) == ""

    run_virtual(play())


@pytest.mark.parametrize(
    "heard",
    [
        lambda books: books.pod_event(None, pod("one", nodeName="node-1")),
        lambda books: books.pod_event(pod("one"), pod("one", nodeName="node-1")),
    ],
)
def test_who_is_seen_on_a_node_stays(heard: Callable[[Books], None]) -> None:
    async def play() -> None:
        one = ledger(1000)
        assert one.ask(pod("one")) == ""
        heard(one.books)
        await asyncio.sleep(FORGOTTEN_SECONDS)
        one.expire()
        kind = one.books.kind(pod("one"))
        assert one.books.accounts["a"] == Account({kind: 1}, {kind: 1})
        one.books.pod_event(pod("one", nodeName="node-1"), None)
        assert one.books.accounts["a"] == Account()

    run_virtual(play())


def test_who_is_refused_from_afar_is_remembered_until_it_may_start() -> None:
    async def play() -> None:
        one = ledger(0)
        assert (one.ask_from_afar(pod("one")), one.refused) == (REFUSED, {"one": "a/one"})
        one.publish({"a": {"cpu": 1000}}, frozenset())
        assert (one.ask_from_afar(pod("one")), one.refused) == ("", {})

    run_virtual(play())


def test_who_waits_starts_in_turn_and_of_equal_pods_one_refusal_is_enough() -> None:
    async def play() -> None:
        one = ledger(2000)
        asked: list[str] = []
        ask = one.ask

        def counted(pod: Pod) -> str:
            asked.append(pod.metadata.name)
            return ask(pod)

        one.ask = counted  # type: ignore[method-assign]
        pods = [pod("a"), pod("b"), pod("c"), pod("d"), pod("urgent", priority=1)]
        assert [pod.metadata.name for pod in let_start(one, pods)] == ["urgent", "a"]
        assert asked == ["urgent", "a", "b"]

    run_virtual(play())
