"""Manifests from files: YAML documents, JSON, `kind: List`, and dumps of real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import NoneType

from fairlead.api import goyaml
from fairlead.api.objects import Obj, metadata

#: What a server writes into metadata: dropped, for this cluster writes its own.
_SERVER_OWNED = ("resourceVersion", "managedFields", "selfLink")


def read(path: Path) -> Iterator[Obj]:
    """Every object in the file, lists taken apart. Raises ValueError for what is no manifest."""
    try:
        for document in goyaml.strict_documents(path.read_bytes()):
            if document is not None:
                yield from _objects(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _objects(document: object) -> Iterator[Obj]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ValueError("every document needs a kind")
    kind = document["kind"]
    if kind.endswith("List") and "items" in document:
        items = document["items"]
        if not isinstance(items, list | NoneType):
            raise ValueError(f"items of a {kind} must be a list of objects")
        for item in items or ():
            yield from _objects(item)
    elif not isinstance(document.get("metadata") or {}, dict):
        raise ValueError(f"metadata of a {kind} must be a mapping with a name, not {document['metadata']!r}")
    else:
        yield document


def portable(obj: Obj) -> Obj:
    """The object without what belongs to the cluster that it was dumped from."""
    for key in _SERVER_OWNED:
        metadata(obj).pop(key, None)
    return obj
