"""The long work of many users, of which little goes on at a time: whoever has much of it waits for himself.

Each user has one piece in work, in a thread of its own. What may take seconds lets others go on now and then, so that
nobody waits for its end; and since the others stand still, the event loop shares the interpreter with few threads.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FairThreads:
    """Takes one piece of work of each user in turn, of up to `users` at once; the others wait until one is done.

    Of those that are begun so many go on `at_once`.
    """

    def __init__(self, name: str, users: int, at_once: int = 1) -> None:
        self._threads = ThreadPoolExecutor(max_workers=users, thread_name_prefix=name)
        self._lock = threading.Lock()
        #: What is not begun yet, of each user who has work here.
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._turn = _Turn(at_once)
        self._strangers = itertools.count()

    def of(self, user: str) -> Executor:
        """The threads, as far as they work for that one; "" is nobody in particular: others each time."""
        return _Share(self, user)

    def put(self, user: str, future: Future[Any], function: Callable[[], Any]) -> None:
        """Call that function in this user's turn, unless the future is cancelled before."""
        with self._lock:
            user = user or f"\0{next(self._strangers)}"
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
        # What the function raised refers to this frame: names kept here would keep it, and all that it had, from being
        # freed until the next full collection.
        del future, function
        with self._lock:
            has_more = bool(self._waiting[user])
            if not has_more:
                del self._waiting[user]
        if has_more:  # after users who have no thread yet
            self._threads.submit(self._work, user)


class _Turn:
    """A lock that so many may have, and that goes to the thread that has waited for it longest."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._lock = threading.Lock()
        #: The threads that have it.
        self._holders: set[int] = set()
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    def is_mine(self) -> bool:
        return threading.get_ident() in self._holders

    def take(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            if len(self._holders) < self._places:
                self._holders.add(thread)
                return
            given = threading.Event()
            self._waiting.append((thread, given))
        given.wait()

    def give_back(self) -> None:
        with self._lock:
            self._holders.discard(threading.get_ident())
            if self._waiting:
                thread, given = self._waiting.popleft()
                self._holders.add(thread)
                given.set()


class _Share(Executor):
    def __init__(self, threads: FairThreads, user: str) -> None:
        self._threads, self._user = threads, user

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._threads.put(self._user, future, partial(fn, *args, **kwargs))
        return future
