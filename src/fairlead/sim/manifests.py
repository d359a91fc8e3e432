"""Manifests from files: YAML documents, JSON, `kind: List`, and dumps of real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from fairlead.api.objects import Obj, metadata

#: What a server writes into metadata: dropped, for this cluster writes its own.
_SERVER_OWNED = ("resourceVersion", "managedFields", "selfLink")


def read(path: Path) -> Iterator[Obj]:
    """Every object in the file, lists taken apart. Raises ValueError for what is no manifest."""
    try:
        with path.open("rb") as file:
            for document in yaml.load_all(file, Loader=yaml.CSafeLoader):
                if document is not None:
                    yield from _objects(document, path)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from None


def _objects(document: object, path: Path) -> Iterator[Obj]:
    if not isinstance(document, dict) or not document.get("kind"):
        raise ValueError(f"{path}: every document needs a kind")
    if str(document["kind"]).endswith("List") and "items" in document:
        for item in document["items"] or ():
            yield from _objects(item, path)
    else:
        yield document


def portable(obj: Obj) -> Obj:
    """The object without what belongs to the cluster that it was dumped from."""
    for key in _SERVER_OWNED:
        metadata(obj).pop(key, None)
    return obj
