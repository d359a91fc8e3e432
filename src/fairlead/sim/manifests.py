"""Manifests from files: YAML documents, JSON, `kind: List`, and dumps of real clusters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj, metadata
from fairlead.runtime.clock import parse_timestamp
from fairlead.sim.dump_text import documents

#: Metadata that a server writes; dropped, because this cluster writes its own.
_SERVER_OWNED = ("resourceVersion", "managedFields", "selfLink")
#: The name of standard input.
STDIN = Path("-")
#: What kubectl reads of a folder.
_ENDINGS = (".json", ".yaml", ".yml")
#: The endings of status fields that hold times in the past.
_PAST = ("Time", "Timestamp", "startedAt", "finishedAt")
#: So much of what is no object is shown.
_MOST_SHOWN = 60
#: A later date than this (2100) is a mistake, or means "never".
_LATEST = 4_102_444_800.0


def files_of(path: Path) -> list[Path]:
    """The file, or the manifests in a folder, as for `kubectl apply -f`. ValueError for a folder that has none."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS and file.is_file())
    if not found:
        raise ValueError(f"in the folder {path} there is no {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]} file")
    return found


def read(path: Path) -> Iterator[Obj]:
    """Every object in the file, lists taken apart. Raises ValueError for what is no manifest."""
    text = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    try:
        if not text.strip():
            raise ValueError("it is empty")
        yield from objects_in(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def objects_in(text: bytes) -> Iterator[Obj]:
    """The same of YAML or JSON."""
    for number, document in enumerate(documents(text), 1):
        if document is not None:
            yield from _objects(document, f"document {number}" if number > 1 else "")


def objects(given: Obj | Sequence[Obj]) -> Iterator[Obj]:
    """The same of what is at hand, as copies."""
    for document in [given] if isinstance(given, dict) else given:
        yield from _objects(copied(document))


def _objects(document: object, place: str = "") -> Iterator[Obj]:
    """`place`: which of several it is."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        where = f"{place}: " if place else ""
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            raise ValueError(f"{where}a list without a kind, which kubectl writes at its end: it is cut off")
        raise ValueError(f"{where}every document needs a kind, and this is {_called(document)}")
    kind = document["kind"]
    if kind.endswith("List") and "items" in document:
        items = document["items"]
        if not isinstance(items, list | NoneType):
            raise ValueError(f"items of a {kind} must be a list of objects")
        told = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        for number, item in enumerate(items or (), 1):
            if isinstance(item, dict) and "kind" not in item and told["kind"]:
                item = {**told, **item}  # the API's own lists tell it once (kubectl get --raw)
            yield from _objects(item, f"item {number} of the {kind}")
    elif not isinstance(document.get("metadata") or {}, dict):
        raise ValueError(f"metadata of a {kind} must be a mapping with a name, not {document['metadata']!r}")
    else:
        yield document


def _called(document: object) -> str:
    """In a few words."""
    if isinstance(document, dict):
        name = metadata(document).get("name") if isinstance(document.get("metadata"), dict) else None
        return f"{name!r} without one" if isinstance(name, str) else "a mapping without one"
    text = repr(document)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"


def portable(obj: Obj) -> Obj:
    """The object without the fields that belong to the cluster that it was dumped from."""
    for key in _SERVER_OWNED:
        metadata(obj).pop(key, None)
    return obj


def is_node(obj: Obj) -> bool:
    """Others have Nodes of their own (longhorn.io)."""
    return (obj.get("apiVersion", "v1"), obj["kind"]) == ("v1", "Node")


def latest_date(objects: Iterable[Obj]) -> float | None:
    """An estimate of when a dump was taken (seconds since the epoch): the latest date in its objects' metadata and
    status. None if there is none."""
    texts = {text for obj in objects for text in _dates(obj) if isinstance(text, str)}  # most say the same few seconds
    return max((moment for text in texts if 0 < (moment := _moment(text)) < _LATEST), default=None)


def _dates(obj: Obj) -> Iterator[object]:
    yield metadata(obj).get("creationTimestamp")
    if _is_of_kubernetes(obj):
        yield from _past(obj.get("status"))
    if obj.get("kind") == "Event":
        yield from _past(obj)


def _is_of_kubernetes(obj: Obj) -> bool:
    """Others tell of the future in their status: when a certificate is to be renewed, when a backup is due."""
    group, _, _ = str(obj.get("apiVersion", "v1")).rpartition("/")
    return "." not in group or group.endswith(".k8s.io")


def _moment(text: str) -> float:
    try:
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        return 0.0  # invalid; the server reports it when the object is stored


def _past(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                if str(key).endswith(_PAST):
                    yield inner
            else:
                yield from _past(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _past(inner)
