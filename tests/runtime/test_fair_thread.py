"""One thread for many users: nobody waits for all that another one has given it."""

from __future__ import annotations

import threading

import pytest

from fairlead.runtime.fair_thread import FairThread

SECONDS = 30.0


def test_users_take_turns_and_what_was_given_up_is_left_out() -> None:
    thread, begun, may_go_on, done = FairThread("test"), threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        may_go_on.wait(SECONDS)

    greedy, modest = thread.of("greedy"), thread.of("modest")
    greedy.submit(first)
    assert begun.wait(SECONDS)
    more = [greedy.submit(done.append, f"greedy {number}") for number in range(3)]
    last = modest.submit(done.append, "modest")
    assert more[1].cancel()
    may_go_on.set()
    for future in (more[0], more[2], last):
        future.result(SECONDS)
    assert done == ["greedy 0", "modest", "greedy 2"]


def test_what_goes_wrong_is_told_to_who_asked_and_the_thread_goes_on() -> None:
    share = FairThread("test").of("u")
    with pytest.raises(ValueError, match="no"):
        share.submit(int, "no").result(SECONDS)
    assert share.submit(int, "1").result(SECONDS) == 1
