"""Manifests from files: YAML documents, JSON, `kind: List`, and dumps of real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import NoneType

import yaml

from fairlead.api.objects import Obj, metadata

#: What a server writes into metadata: dropped, for this cluster writes its own.
_SERVER_OWNED = ("resourceVersion", "managedFields", "selfLink")


def read(path: Path) -> Iterator[Obj]:
    """Every object in the file, lists taken apart. Raises ValueError for what is no manifest."""
    try:
        with path.open("rb") as file:
            for document in yaml.load_all(file, Loader=_Loader):
                if document is not None:
                    yield from _objects(document, path)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from None


class _Loader(yaml.CSafeLoader):
    """Leaves dates alone: in JSON, and so in a manifest, they are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if not resolver[0].endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _objects(document: object, path: Path) -> Iterator[Obj]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ValueError(f"{path}: every document needs a kind")
    kind = document["kind"]
    if kind.endswith("List") and "items" in document:
        items = document["items"]
        if not isinstance(items, list | NoneType):
            raise ValueError(f"{path}: items of a {kind} must be a list of objects")
        for item in items or ():
            yield from _objects(item, path)
    elif not isinstance(document.get("metadata") or {}, dict):
        raise ValueError(f"{path}: metadata of a {kind} must be a mapping with a name, not {document['metadata']!r}")
    else:
        yield document


def portable(obj: Obj) -> Obj:
    """The object without what belongs to the cluster that it was dumped from."""
    for key in _SERVER_OWNED:
        metadata(obj).pop(key, None)
    return obj
