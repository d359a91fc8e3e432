"""`/debug`: what an administrator may ask of the running process. No default role but `cluster-admin` leads there."""

from __future__ import annotations

from http import HTTPStatus

from fairlead.api.encoded import encode
from fairlead.api.errors import MethodNotSupported
from fairlead.server.http.answers import Answer
from fairlead.server.http.request import Request
from fairlead.server.registry.registry import Registry


class Debug:
    """Answers the requests below `/debug`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, request: Request) -> Answer:
        match request.path.strip("/").split("/")[1:]:
            case ["compact"]:
                _demand(request, "POST")
                return self._compact()
        return Answer.not_found()

    def _compact(self) -> Answer:
        """Forget all history, as `etcdctl compact` at the newest revision: who asks for older states lists again."""
        revision = self._registry.revision
        self._registry.compact(revision)
        return Answer(HTTPStatus.OK, encode({"compacted": str(revision)}) + b"\n")


def _demand(request: Request, *methods: str) -> None:
    if request.method not in methods:
        raise MethodNotSupported("the server does not allow this method on the requested resource", shows_details=True)
