"""The long work of many users, of which one piece at a time goes on: whoever has much of it waits for himself.

Each user has one piece in work, in a thread of its own. What may take seconds lets others go on now and then, so that
nobody waits for its end; and since the others stand still, the event loop shares the interpreter with one thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FairThreads:
    """Takes one piece of work of each user in turn, of up to `users` at once; the others wait until one is done."""

    def __init__(self, name: str, users: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers=users, thread_name_prefix=name)
        self._lock = threading.Lock()
        #: What is not begun yet, of each user who has work here.
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._turn = _Turn()

    def of(self, user: str) -> Executor:
        """The threads, as far as they work for that one."""
        return _Share(self, user)

    def put(self, user: str, future: Future[Any], function: Callable[[], Any]) -> None:
        """Call that function in this user's turn, unless the future is cancelled before."""
        with self._lock:
            is_at_work = user in self._waiting
            self._waiting.setdefault(user, deque()).append((future, function))
        if not is_at_work:
            self._threads.submit(self._work, user)

    def let_others_go_on(self) -> None:
        """Called by work that goes on for long: return when all others who wait for their turn have had it.

        Work that is done elsewhere, as in virtual time, has no turn to give.
        """
        if self._turn.is_mine():
            self._turn.give_back()
            self._turn.take()

    def _work(self, user: str) -> None:
        with self._lock:
            future, function = self._waiting[user].popleft()
        if future.set_running_or_notify_cancel():
            self._turn.take()
            try:
                found = function()
            except BaseException as error:
                self._turn.give_back()
                future.set_exception(error)
            else:
                self._turn.give_back()
                future.set_result(found)
        with self._lock:
            has_more = bool(self._waiting[user])
            if not has_more:
                del self._waiting[user]
        if has_more:  # after users who have no thread yet
            self._threads.submit(self._work, user)


class _Turn:
    """A lock that goes to the thread that has waited for it longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The thread that has it.
        self._holder: int | None = None
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    def is_mine(self) -> bool:
        return self._holder == threading.get_ident()

    def take(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            if self._holder is None:
                self._holder = thread
                return
            given = threading.Event()
            self._waiting.append((thread, given))
        given.wait()

    def give_back(self) -> None:
        with self._lock:
            self._holder = None
            if self._waiting:
                self._holder, given = self._waiting.popleft()
                given.set()


class _Share(Executor):
    def __init__(self, threads: FairThreads, user: str) -> None:
        self._threads, self._user = threads, user

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._threads.put(self._user, future, partial(fn, *args, **kwargs))
        return future
