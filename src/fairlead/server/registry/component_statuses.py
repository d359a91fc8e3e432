"""`kubectl get componentstatuses`: how the parts of the control plane are. Nothing of it is stored.

kube-apiserver asks each at its own port; here they are parts of this process, which ends if one of them fails. The
store goes by etcd's name, for which scripts look. Source: pkg/registry/core/componentstatus (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead.api.builtin import COMPONENT_STATUSES
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.verbs import Listing, ListQuery
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.selection import select
from fairlead.store.base import Store

CONTROLLER_MANAGER: Final = "controller-manager"
SCHEDULER: Final = "scheduler"
_STORE: Final = "etcd-0"
_ELSEWHERE: Final = "it does not run in the process of the API server"


class ComponentStatuses:
    """The kind, as the registry asks it."""

    def __init__(self, store: Store, served: Served) -> None:
        self._store, self._served = store, served
        #: The parts that run in this process.
        self.running: frozenset[str] = frozenset()

    async def get(self, name: str, namespace: str) -> Encoded:
        for entry in self._entries():
            if entry.name == name:
                return entry
        raise NotFound.of(COMPONENT_STATUSES.plural, name)

    async def list(self, namespace: str, query: ListQuery, revision: int) -> Listing:
        selection = select(self._served, self._served.stored_version, namespace, query.labels, query.fields)
        matches = selection.matches
        return Listing([entry for entry in self._entries() if matches is None or matches(entry)], "")

    def _entries(self) -> Iterator[Entry]:
        for name in (CONTROLLER_MANAGER, _STORE, SCHEDULER):
            head = {"kind": COMPONENT_STATUSES.kind, "apiVersion": COMPONENT_STATUSES.api_version}
            condition = {"type": "Healthy"} | self._health(name)
            yield Entry(encode(head | {"metadata": {"name": name}, "conditions": [condition]}), "", name, 0)

    def _health(self, name: str) -> Obj:
        if name == _STORE:
            trouble = self._store.trouble
            return {"status": "False", "message": trouble} if trouble else {"status": "True", "message": "ok"}
        if name in self.running:
            return {"status": "True", "message": "ok"}
        return {"status": "Unknown", "error": _ELSEWHERE}
