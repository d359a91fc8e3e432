"""The way from one component to its API server: it keeps what was asked for, and can be cut."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast

from fairlead.api.resources import Resource
from fairlead.api.verbs import Api


@dataclass(frozen=True, slots=True)
class Call:
    """One request, in the words of RBAC."""

    verb: str
    group: str
    resource: str  # with its subresource: pods/eviction
    namespace: str
    name: str


class Wire:
    """A way to an API. Use `api_of`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.calls: list[Call] = []
        #: Called before a request goes out.
        self.before: Callable[[Call], None] = lambda call: None
        self._passable = asyncio.Event()
        self._passable.set()

    @property
    def is_cut(self) -> bool:
        return not self._passable.is_set()

    def cut(self) -> None:
        """Requests and what watches tell are held up, until it is mended."""
        self._passable.clear()

    def mend(self) -> None:
        self._passable.set()

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._api, verb)
        signature = inspect.signature(method)

        async def asked(*args: Any, **more: Any) -> Any:
            self._note(verb, signature.bind(*args, **more).arguments)
            await self._passable.wait()
            answer = await method(*args, **more)
            await self._passable.wait()
            return answer

        async def watched(*args: Any, **more: Any) -> AsyncIterator[Any]:
            self._note(verb, signature.bind(*args, **more).arguments)
            async for event in method(*args, **more):
                await self._passable.wait()
                yield event

        return watched if verb == "watch" else asked

    def _note(self, verb: str, arguments: dict[str, Any]) -> None:
        resource: Resource = arguments["resource"]
        meta = (arguments.get("obj") or {}).get("metadata", {})
        plural = "/".join(part for part in (resource.plural, arguments.get("subresource", "")) if part)
        namespace = arguments.get("namespace") or meta.get("namespace", "")
        call = Call(verb, resource.group, plural, namespace, arguments.get("name") or meta.get("name", ""))
        self.calls.append(call)
        self.before(call)


def api_of(wire: Wire) -> Api:
    """The API at the other end."""
    return cast(Api, wire)
