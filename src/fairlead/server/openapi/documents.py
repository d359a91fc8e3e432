"""The documents themselves: the v3 index, one v3 document a group-version, and v2 with everything in one.

Documents of built-in kinds never change, so each is made once per process. Those with custom kinds are made
again when a CRD has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from fairlead import COMPATIBILITY_VERSION, __version__
from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.codec.wire import META
from fairlead.server.openapi import custom, gnostic, measured, merging
from fairlead.server.openapi.definitions import PREFIX, V2, V3, closure, references
from fairlead.server.openapi.paths import paths_of
from fairlead.server.storage.catalogue import Catalogue

_decode = msgspec.json.decode
_INFO = {"title": "Kubernetes", "version": f"v{COMPATIBILITY_VERSION}.0"}
_TOKEN = {
    "description": "Bearer Token authentication",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}
#: Documents about the server itself: path, operation, type of the answer.
_ROOTS: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("api",): ("/api/", "getCoreAPIVersions", f"{META}.APIVersions"),
    ("apis",): ("/apis/", "getAPIVersions", f"{META}.APIGroupList"),
    ("version",): ("/version/", "getCodeVersion", "io.k8s.apimachinery.pkg.version.Info"),
}
#: A row and, for a custom kind, its CRD as JSON: what a document is made from, and hashable.
_Source = tuple[Resource, bytes]


class Kinds(msgspec.Struct, frozen=True):
    """What is served at a moment; documents may be made from it in another thread."""

    rows: Sequence[Resource]
    crds: Mapping[str, Obj]  # by `Resource.qualified`
    #: Where others describe what they serve: the path of the index, and the URL.
    elsewhere: Mapping[str, str]
    #: What is kept of their v2 (`merging.py`), the most important first.
    others: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls,
        catalogue: Catalogue,
        rows: Sequence[Resource] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        others: tuple[bytes, ...] = (),
    ) -> Kinds:
        crds = {served.resource.qualified: served.crd for served in catalogue if served.crd}
        rows = catalogue.rows() if rows is None else rows
        return cls(rows, {**measured.DEFINITIONS, **crds}, elsewhere or {}, others)

    def source(self, row: Resource) -> _Source:
        """What documents depend on of one kind: of a CRD its spec."""
        crd = self.crds.get(row.qualified)
        return row, encode({"spec": crd["spec"]}) if crd else b""


def v3_index(kinds: Kinds) -> bytes:
    """`/openapi/v3`: where the documents are. The hash changes with what is behind it, so clients may keep them."""
    rows = kinds.rows
    keys: list[tuple[str, ...]] = list(_ROOTS)
    keys += [("apis", group) for group in dict.fromkeys(row.group for row in rows) if group]
    keys += list(dict.fromkeys(tuple(row.root.strip("/").split("/")) for row in rows))
    paths = {}
    for key in sorted(keys):
        path = "/".join(key)
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(_sources(kinds, key))}"}
    paths |= {path: {"serverRelativeURL": url} for path, url in kinds.elsewhere.items()}
    return encode({"paths": paths})


def v3(kinds: Kinds, path: tuple[str, ...]) -> bytes | None:
    """`/openapi/v3/PATH`, or None if nothing is there."""
    if path in _ROOTS:
        return _root(*_ROOTS[path])
    if len(path) == 2 and path[0] == "apis":
        is_served = any(row.group == path[1] for row in kinds.rows)
        name = f"{META}.APIGroup"
        return (
            _root(f"/apis/{path[1]}/", f"get{path[1].partition('.')[0].title()}APIGroup", name) if is_served else None
        )
    sources = _sources(kinds, path)
    return _v3(sources) if sources else None


def v2(kinds: Kinds) -> bytes:
    """`/openapi/v2`."""
    return _whole_v2(_all(kinds), kinds.others)


def v2_as_protobuf(kinds: Kinds) -> bytes:
    """`/openapi/v2` for Go clients."""
    return _v2_as_protobuf(_all(kinds), kinds.others)


def v2_tag(kinds: Kinds) -> bytes:
    """What changes with `/openapi/v2`: its `ETag`."""
    return _v2_tag(_all(kinds), kinds.others)


def _all(kinds: Kinds) -> tuple[_Source, ...]:
    return tuple(map(kinds.source, kinds.rows))


def _sources(kinds: Kinds, path: tuple[str, ...]) -> tuple[_Source, ...]:
    root = "/" + "/".join(path)
    return tuple(kinds.source(row) for row in kinds.rows if row.root == root)


def _hash(sources: tuple[_Source, ...]) -> str:
    digest = hashlib.sha512(__version__.encode())
    for row, crd in sources:
        digest.update(f"{row!r}".encode() + crd)
    return digest.hexdigest().upper()


@lru_cache(maxsize=256)
def _v3(sources: tuple[_Source, ...]) -> bytes:
    paths, schemas = _content(sources, V3)
    return _encoded(paths, schemas)


@lru_cache(maxsize=64)
def _root(path: str, operation: str, name: str) -> bytes:
    schema = {"$ref": PREFIX[V3] + name}
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    get = {"operationId": operation, "responses": {"200": answer, "401": {"description": "Unauthorized"}}}
    return _encoded({path: {"get": get}}, closure([name], V3))


def _encoded(paths: Obj, schemas: Obj) -> bytes:
    components = {"schemas": schemas, "securitySchemes": {"BearerToken": _TOKEN}}
    return encode({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": components})


@lru_cache(maxsize=2)
def _v2(sources: tuple[_Source, ...]) -> bytes:
    paths, definitions = _content(sources, V2)
    return encode(
        {
            "swagger": "2.0",
            "info": _INFO,
            "paths": paths,
            "definitions": definitions,
            "securityDefinitions": {"BearerToken": _TOKEN},
            "security": [{"BearerToken": []}],
        }
    )


@lru_cache(maxsize=2)
def _whole_v2(sources: tuple[_Source, ...], others: tuple[bytes, ...]) -> bytes:
    own = _v2(sources)
    return merging.merged(own, others) if others else own


@lru_cache(maxsize=2)
def _v2_as_protobuf(sources: tuple[_Source, ...], others: tuple[bytes, ...]) -> bytes:
    return gnostic.document(_whole_v2(sources, others))


@lru_cache(maxsize=2)
def _v2_tag(sources: tuple[_Source, ...], others: tuple[bytes, ...]) -> bytes:
    return b'"%b"' % hashlib.sha512(_whole_v2(sources, others)).hexdigest().upper().encode()


def _content(sources: Iterable[_Source], version: str) -> tuple[Obj, Obj]:
    """Paths, and the types that they need, of some rows."""
    paths: dict[str, Obj] = {}
    own: dict[str, Obj] = {}
    for row, crd in sources:
        name = row.definition or custom.definition_name(row)
        if crd:
            own |= custom.definitions(row, _decode(crd), version)
        paths |= paths_of(row, name, version)
    built_in = closure(references([paths, own], version), version)
    schemas = built_in | own
    return {path: paths[path] for path in sorted(paths)}, {name: schemas[name] for name in sorted(schemas)}
