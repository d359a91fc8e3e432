"""`/debug`: what an administrator may ask of the running process. No default role but `cluster-admin` leads there."""

from __future__ import annotations

from http import HTTPStatus

from fairlead.api.encoded import encode
from fairlead.api.errors import MethodNotSupported
from fairlead.server.fairness.dumps import dump_priority_levels, dump_queues, dump_requests
from fairlead.server.fairness.fairness import Fairness
from fairlead.server.http.answers import Answer
from fairlead.server.http.request import Request
from fairlead.server.registry.registry import Registry


class Debug:
    """Answers the requests below `/debug`."""

    def __init__(self, registry: Registry, fairness: Fairness | None) -> None:
        self._registry, self._fairness = registry, fairness

    async def answer(self, request: Request) -> Answer:
        match request.path.strip("/").split("/")[1:]:
            case ["compact"]:
                _demand(request, "POST")
                return self._compact()
            case ["api_priority_and_fairness", dump] if self._fairness is not None:
                return await self._dump(request, dump, self._fairness)
        return Answer.not_found()

    async def _dump(self, request: Request, dump: str, fairness: Fairness) -> Answer:
        """Who waits and who is carried out at this moment."""
        _demand(request, "GET", "HEAD")
        match dump:
            case "dump_priority_levels":
                return Answer.of_text(dump_priority_levels(fairness))
            case "dump_queues":
                return Answer.of_text(dump_queues(fairness))
            case "dump_requests":
                has_details = bool(request.query.get("includeRequestDetails"))
                return Answer.of_text(await dump_requests(fairness, has_details=has_details))
        return Answer.not_found()

    def _compact(self) -> Answer:
        """Forget all history, as `etcdctl compact` at the newest revision: who asks for older states lists again."""
        revision = self._registry.revision
        self._registry.compact(revision)
        return Answer(HTTPStatus.OK, encode({"compacted": str(revision)}) + b"\n")


def _demand(request: Request, *methods: str) -> None:
    if request.method not in methods:
        raise MethodNotSupported("the server does not allow this method on the requested resource", shows_details=True)
