"""Operations: which requests a kind answers, with which parameters, bodies and answers.

kubectl reads three things here: the kind that an operation is about (`x-kubernetes-group-version-kind`), whether a
PATCH knows `fieldValidation`, and whether it takes strategic merge patches.
"""

from __future__ import annotations

from functools import cache

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource, Subresource
from fairlead.server.codec.wire import META
from fairlead.server.openapi.definitions import PREFIX, V2, V3, definition

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_ANSWERS = ("application/json", "application/yaml")
STATUS, PATCH, DELETE_OPTIONS = f"{META}.Status", f"{META}.Patch", f"{META}.DeleteOptions"

_TYPES = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "limit": "integer",
    "orphanDependents": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_TEXTS = {
    "allowWatchBookmarks": "Whether a watch may send BOOKMARK events, which say how far it has come.",
    "continue": "The token of the answer before, for the next page of a list.",
    "fieldManager": "Who makes these changes, as managedFields will say; at most 128 printable characters.",
    "fieldSelector": "Restricts the list of returned objects by their fields.",
    "fieldValidation": "What becomes of unknown and repeated fields: Ignore, Warn or Strict.",
    "force": "Whether an apply takes over fields that others own.",
    "labelSelector": "Restricts the list of returned objects by their labels.",
    "limit": "How many objects a list answers at most; the rest is there by its continue token.",
    "namespace": "object name and auth scope, such as for teams and projects",
    "pretty": "If 'true', the answer is printed with indentation.",
    "resourceVersion": "How new the answer has to be, or from where on a watch begins.",
    "resourceVersionMatch": "How resourceVersion is meant for a list: Exact or NotOlderThan.",
    "sendInitialEvents": "Whether a watch begins with an event for every object that is there.",
    "timeoutSeconds": "How long a list or watch may take.",
    "watch": "Watch for changes to the described resources: each is told as it comes, instead of a list being sent.",
}
_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_DELETE = (
    "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
    "propagationPolicy",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")


class _Verb(msgspec.Struct, frozen=True):
    """How a verb of the API appears in OpenAPI."""

    method: str
    action: str  # x-kubernetes-action
    operation: str  # first word of the operationId
    query: tuple[str, ...] = ()
    codes: tuple[int, ...] = (200,)


_VERBS = {
    "list": _Verb("get", "list", "list", _LIST),
    "create": _Verb("post", "post", "create", _WRITE, (200, 201, 202)),
    "deletecollection": _Verb("delete", "deletecollection", "deleteCollection", tuple(sorted({*_LIST[1:7], *_DELETE}))),
    "get": _Verb("get", "get", "read"),
    "update": _Verb("put", "put", "replace", _WRITE, (200, 201)),
    "delete": _Verb("delete", "delete", "delete", _DELETE, (200, 202)),
    "patch": _Verb("patch", "patch", "patch", (*_WRITE, "force"), (200, 201)),
}
_ON_COLLECTION = ("list", "create", "deletecollection")
_ON_OBJECT = ("get", "update", "delete", "patch")


def paths_of(row: Resource, definition: str, version: str) -> dict[str, Obj]:
    """All paths of a kind whose type is called `definition`."""
    root = f"{row.root}/namespaces/{{namespace}}" if row.namespaced else row.root
    collection, item = f"{root}/{row.plural}", f"{root}/{row.plural}/{{name}}"
    maker = _Maker(row, definition, version)
    found = {collection: maker.item(_ON_COLLECTION, row.verbs), item: maker.item(_ON_OBJECT, row.verbs, named=True)}
    if row.namespaced and "list" in row.verbs:
        found[f"{row.root}/{row.plural}"] = maker.everywhere()
    for sub in row.subresources.values():
        found[f"{item}/{sub.name}"] = maker.subresource(sub)
    return {path: item for path, item in found.items() if len(item) > 1}


class _Maker:
    """Makes the operations of one kind in one version of OpenAPI."""

    def __init__(self, row: Resource, definition: str, version: str) -> None:
        self.row, self.definition, self.version = row, definition, version
        name = (row.group or "core").removesuffix(".k8s.io").replace("-", ".")
        words = [word for word in name.split(".") if word]
        camel = words[0] + "".join(word.title() for word in words[1:])
        self.tag = f"{camel}_{row.version}"
        self.id = camel[0].upper() + camel[1:] + row.version.title()

    def item(self, verbs: tuple[str, ...], allowed: tuple[str, ...], *, named: bool = False) -> Obj:
        operations: Obj = {}
        for name in verbs:
            if name in allowed:
                verb = _VERBS[name]
                answer = {"list": self.definition + "List", "deletecollection": STATUS, "delete": STATUS}.get(name)
                operations[verb.method] = self._operation(
                    verb, self.row.kind, self.row, answer or self.definition, self.definition
                )
        return operations | self._parameters(named=named)

    def everywhere(self) -> Obj:
        """The list of all namespaces."""
        verb = _VERBS["list"]
        operation = self._operation(verb, self.row.kind, self.row, f"{self.definition}List", "")
        operation["operationId"] = f"list{self.id}{self.row.kind}ForAllNamespaces"
        return {"get": operation, "parameters": [self._parameter("pretty")]}

    def subresource(self, sub: Subresource) -> Obj:
        operations: Obj = {}
        kind = Resource(sub.group or self.row.group, sub.version or self.row.version, "", sub.kind)
        definition = self.definition
        if sub.kind != self.row.kind:
            group = (kind.group or "core").partition(".")[0]
            definition = f"io.k8s.api.{group}.{kind.version}.{sub.kind}"
        suffix = sub.name.title()
        if sub.kind.endswith("Options"):
            return self._connect(sub, kind) | self._parameters(named=True)
        for name in sub.verbs:
            if name in _VERBS:
                verb = _VERBS[name]
                operations[verb.method] = self._operation(verb, sub.kind, kind, definition, definition, suffix)
        return operations | self._parameters(named=True)

    def _connect(self, sub: Subresource, kind: Resource) -> Obj:
        """exec, attach, proxy: a connection instead of an object."""
        methods = {"get": "get", "create": "post", "update": "put", "delete": "delete", "patch": "patch"}
        operations: Obj = {}
        for name in sub.verbs:
            method = methods[name]
            operations[method] = {
                "tags": [self.tag],
                "description": f"connect {method.upper()} requests to {sub.name} of {self.row.kind}",
                "operationId": f"connect{self.id}{method.title()}{self._scope()}{self.row.kind}{sub.name.title()}",
                "responses": self._responses((200,), ""),
                "x-kubernetes-action": "connect",
                "x-kubernetes-group-version-kind": _gvk(kind),
            }
        return operations

    def _operation(self, verb: _Verb, kind: str, about: Resource, answer: str, body: str, suffix: str = "") -> Obj:
        name = f"{self.row.kind}{suffix}"
        operation: Obj = {
            "tags": [self.tag],
            "description": f"{verb.operation} {kind}",
            "operationId": f"{verb.operation}{self.id}{self._scope()}{name}",
            "parameters": [self._parameter(parameter) for parameter in verb.query],
        }
        sent = {"post": body, "put": body, "patch": PATCH, "delete": DELETE_OPTIONS}.get(verb.method)
        if sent:
            self._add_body(operation, sent, verb.method)
        if not operation["parameters"]:
            del operation["parameters"]
        operation["responses"] = self._responses(verb.codes, answer)
        operation["x-kubernetes-action"] = verb.action
        operation["x-kubernetes-group-version-kind"] = _gvk(about)
        return operation

    def _add_body(self, operation: Obj, definition: str, method: str) -> None:
        schema = {"$ref": PREFIX[self.version] + definition}
        patches = _PATCHES if not self.row.definition else (*_PATCHES, _STRATEGIC)
        if self.version == V2:
            body = {"name": "body", "in": "body", "required": method != "delete", "schema": schema}
            operation["parameters"].append(body)
            operation["consumes"] = list(patches) if method == "patch" else ["*/*"]
            operation["produces"] = list(_ANSWERS)
            return
        media_types = patches if method == "patch" else ("*/*",)
        content = {media_type: {"schema": schema} for media_type in media_types}
        operation["requestBody"] = {"content": content} | ({"required": True} if method != "delete" else {})

    def _responses(self, codes: tuple[int, ...], definition: str) -> Obj:
        texts = {200: "OK", 201: "Created", 202: "Accepted"}
        found: Obj = {}
        for code in codes:
            response: Obj = {"description": texts[code]}
            if definition:
                schema = {"$ref": PREFIX[self.version] + definition}
                if self.version == V3:
                    response["content"] = {media_type: {"schema": schema} for media_type in _ANSWERS}
                else:
                    response["schema"] = schema
            found[str(code)] = response
        return found | {"401": {"description": "Unauthorized"}}

    def _parameters(self, *, named: bool) -> Obj:
        in_path = [self._in_path("name")] if named else []
        in_path += [self._in_path("namespace")] if self.row.namespaced else []
        return {"parameters": [*in_path, self._parameter("pretty")]}

    def _parameter(self, name: str) -> Obj:
        where = {"name": name, "in": "query", "description": _described(name, self.version), "uniqueItems": True}
        return where | self._typed(_TYPES.get(name, "string"))

    def _in_path(self, name: str) -> Obj:
        description = f"name of the {self.row.kind}" if name == "name" else _TEXTS[name]
        where = {"name": name, "in": "path", "description": description, "required": True, "uniqueItems": True}
        return where | self._typed("string")

    def _typed(self, type_: str) -> Obj:
        return {"schema": {"type": type_, "uniqueItems": True}} if self.version == V3 else {"type": type_}

    def _scope(self) -> str:
        return "Namespaced" if self.row.namespaced else ""


@cache
def _described(name: str, version: str) -> str:
    """What a parameter of the query means; those of a deletion are described with its options."""
    if (description := _TEXTS.get(name)) is not None:
        return description
    described: str = definition(DELETE_OPTIONS, version)["properties"][name]["description"]
    return described


def _gvk(row: Resource) -> Obj:
    return {"group": row.group, "version": row.version, "kind": row.kind}
