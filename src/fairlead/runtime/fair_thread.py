"""One thread for the long work of many: whoever has much of it waits for himself, and others come in between."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FairThread:
    """Takes one piece of work of each user in turn."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = threading.Lock()
        #: What waits, by user; the first of them is next.
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}

    def of(self, user: str) -> Executor:
        """The thread, as far as it works for that one."""
        return _Share(self, user)

    def put(self, user: str, future: Future[Any], function: Callable[[], Any]) -> None:
        """Call that function in this user's turn, unless the future is cancelled before."""
        with self._lock:
            self._waiting.setdefault(user, deque()).append((future, function))
        self._thread.submit(self._take)

    def _take(self) -> None:
        with self._lock:
            user, work = next(iter(self._waiting.items()))
            future, function = work.popleft()
            del self._waiting[user]
            if work:
                self._waiting[user] = work  # after all others
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)


class _Share(Executor):
    def __init__(self, thread: FairThread, user: str) -> None:
        self._thread, self._user = thread, user

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._thread.put(self._user, future, partial(fn, *args, **kwargs))
        return future
