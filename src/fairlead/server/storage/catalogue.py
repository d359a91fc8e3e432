"""What the server serves right now: every kind with its cache, its behaviour and its versions.

A built-in kind is a row of `api/builtin.py`; a CustomResourceDefinition adds kinds at run time and takes them away.
Kinds that several groups or versions show (events, horizontal pod autoscalers) share one stored form and one cache; a
`ServedVersion` converts between that form and the one a client asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from fairlead.api.encoded import Encoded, encode, storable
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.kinds.strategy import Strategy
from fairlead.server.codec.versions import Converter, ServedVersion
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.keys import key_of

if TYPE_CHECKING:
    from fairlead.server.apply.forms import Forms


class Served(msgspec.Struct):
    """One kind: what is stored of it and how it behaves."""

    resource: Resource  # in the stored version
    strategy: Strategy
    cache: Cache
    versions: dict[str, ServedVersion] = msgspec.field(default_factory=dict)  # by apiVersion
    crd: Obj | None = None
    #: Whether the definition of a custom kind is being deleted: nothing new may be born.
    is_terminating: bool = False
    #: Until when somebody may write who began under the definition before this one.
    older_writes_until: float = 0.0
    #: The status of a new object, where the kind's is never absent.
    zero_status: Obj | None = None
    #: What field ownership knows of the kind; made when it is first asked (`apply/field_managers.py`).
    forms: Forms | None = None

    @property
    def stored_version(self) -> ServedVersion:
        return self.versions[self.resource.api_version]

    @property
    def converter(self) -> Converter | None:
        """Who converts its objects, if that is not done here."""
        return next((version.converter for version in self.versions.values()), None)

    def key(self, namespace: str, name: str) -> str:
        """The key under which the store holds the object."""
        return key_of(self.resource.qualified, namespace, name)

    def path(self, namespace: str, name: str) -> str:
        """The etcd key that kube-apiserver would use; only its error texts show it."""
        row = self.resource
        root = f"{row.group}/{row.plural}" if self.crd else row.plural
        return f"/registry/{root}/{namespace}/{name}" if namespace else f"/registry/{root}/{name}"

    def decoded(self, value: bytes) -> Obj:
        """A stored object, as its kind is today."""
        return self.strategy.refresh(Encoded(value).obj())

    def refreshed(self, value: bytes) -> bytes:
        """The same, as bytes; those that are stored, unless they say something else."""
        obj = self.decoded(value)
        return value if obj == Encoded(value).obj() else encode(obj)

    def encode(self, obj: Obj) -> bytes:
        """The object as the store takes it."""
        version = obj["apiVersion"] if self.converter is not None else self.resource.api_version
        return storable(obj, self.resource.kind, version)


class Catalogue:
    """All served kinds, by every spelling under which they are asked for."""

    def __init__(self) -> None:
        self._by_stored: dict[str, Served] = {}
        self._by_path: dict[tuple[str, str, str], tuple[Served, ServedVersion]] = {}
        self._rows: list[Resource] | None = None
        #: Counts changes, so that documents made from the rows can be cached.
        self.generation = 0
        #: Told of every change.
        self.on_changed: Callable[[], None] | None = None

    def add(self, served: Served) -> None:
        self._by_stored[served.resource.qualified] = served
        for version in served.versions.values():
            row = version.resource
            self._by_path[(row.group, row.version, row.plural)] = (served, version)
        self._changed()

    def remove(self, qualified: str) -> None:
        self._by_stored.pop(qualified, None)
        gone = [path for path, (served, _) in self._by_path.items() if served.resource.qualified == qualified]
        for path in gone:
            del self._by_path[path]
        self._changed()

    def stored(self, qualified: str) -> Served | None:
        return self._by_stored.get(qualified)

    def find(self, group: str, version: str, plural: str) -> tuple[Served, ServedVersion] | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> tuple[Served, ServedVersion] | None:
        """The kind that manifests of that apiVersion and kind are of."""
        for served, served_version in self._by_path.values():
            row = served_version.resource
            if (row.kind, row.group, row.version) == (kind, group, version):
                return served, served_version
        return None

    def of(self, resource: Resource) -> tuple[Served, ServedVersion]:
        """The kind of a row; `NotFound` if it is not served (any more)."""
        found = self._by_path.get((resource.group, resource.version, resource.plural))
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    def rows(self) -> list[Resource]:
        """Every served group-version-resource, built-in ones first."""
        if self._rows is None:
            self._rows = [version.resource for _, version in self._by_path.values()]
        return self._rows

    def __iter__(self) -> Iterator[Served]:
        return iter(self._by_stored.values())

    def _changed(self) -> None:
        self._rows = None
        self.generation += 1
        if self.on_changed is not None:
            self.on_changed()
