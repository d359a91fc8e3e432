"""The objects of a cache by their labels, for whoever asks for few of many again and again.

An autoscaler asks for the metrics of its own pods every 15 seconds: hundreds of autoscalers in one namespace would look
at each of its pods hundreds of times. The index costs nothing before somebody asks, and after that as much as changes.
"""

from __future__ import annotations

from typing import TypeAlias

from fairlead.api.selectors import Selector
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.entries import Entry

_Place: TypeAlias = tuple[str, str, str]  # namespace, label and value


class LabelIndex:
    """Follows a cache whenever it is asked."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._names: dict[_Place, set[str]] | None = None
        #: The revision and the number of changes up to which it has followed.
        self._revision, self._changes = 0, 0

    def candidates(self, namespace: str, selector: Selector) -> list[Entry] | None:
        """Those of a namespace that have the rarest label that the selector requires, by name; what else it requires
        is still to be asked. None if it requires no certain label.
        """
        if not namespace or not selector.equalities:
            return None
        names = self._followed()
        found = min((names.get((namespace, *label), set()) for label in selector.equalities), key=len)
        entries = (self._cache.get(namespace, name) for name in sorted(found))
        return [entry for entry in entries if entry is not None]

    def _followed(self) -> dict[_Place, set[str]]:
        """The names at each place, as of now."""
        cache = self._cache
        changes = cache.since(self._revision) if self._names is not None else None
        if self._names is None or changes is None or len(changes) != cache.changes - self._changes:
            self._names = {}
            for entry in cache.entries():
                _file(self._names, entry)
        else:
            for change in changes:
                if change.old is not None:
                    _remove(self._names, change.old)
                if change.new is not None:
                    _file(self._names, change.new)
        self._revision, self._changes = cache.revision, cache.changes
        return self._names


def _places(entry: Entry) -> list[_Place]:
    return [(entry.namespace, key, value) for key, value in entry.labels.items()]


def _file(names: dict[_Place, set[str]], entry: Entry) -> None:
    for place in _places(entry):
        names.setdefault(place, set()).add(entry.name)


def _remove(names: dict[_Place, set[str]], entry: Entry) -> None:
    for place in _places(entry):
        filed = names.get(place, set())
        filed.discard(entry.name)
        if not filed:
            names.pop(place, None)
