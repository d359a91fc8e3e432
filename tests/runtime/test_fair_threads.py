"""Threads for many users: nobody waits for all that another one has given them, nor for the end of one piece of it."""

from __future__ import annotations

import threading
import time

import pytest

from fairlead.runtime.fair_threads import FairThreads

SECONDS = 30.0


def test_users_take_turns_and_what_was_given_up_is_left_out() -> None:
    threads, begun, may_go_on, done = FairThreads("test", users=1), threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        may_go_on.wait(SECONDS)

    greedy, modest = threads.of("greedy"), threads.of("modest")
    greedy.submit(first)
    assert begun.wait(SECONDS)
    more = [greedy.submit(done.append, f"greedy {number}") for number in range(3)]
    last = modest.submit(done.append, "modest")
    assert more[1].cancel()
    may_go_on.set()
    for future in (more[0], more[2], last):
        future.result(SECONDS)
    assert done == ["modest", "greedy 0", "greedy 2"]


def test_what_goes_wrong_is_told_to_who_asked_and_the_thread_goes_on() -> None:
    share = FairThreads("test", users=1).of("u")
    with pytest.raises(ValueError, match="no"):
        share.submit(int, "no").result(SECONDS)
    assert share.submit(int, "1").result(SECONDS) == 1


def test_what_is_short_is_done_while_something_long_of_another_user_goes_on() -> None:
    threads, begun, is_done = FairThreads("test", users=2), threading.Event(), threading.Event()

    def long() -> bool:
        begun.set()
        ends_at = time.monotonic() + SECONDS
        while not is_done.wait(0) and time.monotonic() < ends_at:
            threads.let_others_go_on()
        return is_done.is_set()

    going_on = threads.of("greedy").submit(long)
    assert begun.wait(SECONDS)
    threads.of("modest").submit(is_done.set)
    assert going_on.result(2 * SECONDS)


def test_of_all_that_is_begun_one_piece_goes_on_at_a_time() -> None:
    threads, at_work, most = FairThreads("test", users=4), list[str](), list[int]()

    def work(user: str) -> None:
        for _ in range(50):
            at_work.append(user)
            time.sleep(0)  # another thread would go on now, if it might
            most.append(len(at_work))
            at_work.remove(user)
            threads.let_others_go_on()

    for future in [threads.of(user).submit(work, user) for user in "abcdefgh"]:
        future.result(SECONDS)
    assert len(most) == 400 and max(most) == 1


def test_work_that_is_done_elsewhere_takes_nobodys_turn() -> None:
    threads = FairThreads("test", users=1)
    threads.let_others_go_on()
    assert threads.of("u").submit(int, "1").result(SECONDS) == 1
