"""What other servers say of themselves, in our document (`/openapi/v2`): what is kept, and how it is put together.

A definition whose name means something else here gets another one (`Thing_v2`); a path that is there stays as it is.
Sources: k8s.io/kube-openapi, pkg/aggregator; kube-aggregator, pkg/controllers/openapi/aggregator (1.36).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.golang.json import parse
from fairlead.server.openapi import gnostic

#: The parts of a document that references lead to.
_PARTS: Final = ("definitions", "parameters")
_KINDS: Final = "x-kubernetes-group-version-kind"

log = logging.getLogger(__name__)


def kept_of(body: bytes, prefix: str) -> bytes:
    """The paths of a document that begin so, and what they refer to; b"" if there are none.

    ValueError: it is no document that can be served again, in both forms. It may be anything, and takes time in
    proportion to its size.
    """
    try:
        document = parse(body)
        paths = {path: item for path, item in document.get("paths", {}).items() if path.startswith(prefix)}
        parts = _needed({part: document.get(part) or {} for part in _PARTS}, paths)
        kept = encode({"paths": paths, **parts})
        gnostic.document(kept)
    except Exception as error:  # somebody else's document: whatever it does, it does not do to us
        raise ValueError(f"no OpenAPI v2: {type(error).__name__}: {error}") from None
    return kept if paths else b""


def merged(own: bytes, others: Iterable[bytes]) -> bytes:
    """Our document with what was kept of others, the most important first."""
    document: Obj = msgspec.json.decode(own)
    for kept in others:
        try:
            _merge(document, msgspec.json.decode(kept))
        except Exception as error:
            log.warning("the OpenAPI of another server is left out: %s: %s", type(error).__name__, error)
    for part in ("paths", *_PARTS):
        if part in document:
            document[part] = {name: document[part][name] for name in sorted(document[part])}
    return encode(document)


def _needed(parts: Mapping[str, Obj], paths: Obj) -> dict[str, Obj]:
    """Of each part what is referred to by those paths, and by what they refer to."""
    needed: dict[str, Obj] = {part: {} for part in parts}
    waiting: list[Any] = [paths]
    while waiting:
        for part, name in _references(waiting.pop()):
            if part in parts and name in parts[part] and name not in needed[part]:
                needed[part][name] = parts[part][name]
                waiting.append(parts[part][name])
    return needed


def _references(value: Any) -> Iterator[tuple[str, str]]:
    """Every `#/PART/NAME` in it."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str) and reference.startswith("#/"):
                part, _, name = reference.removeprefix("#/").partition("/")
                yield part, name
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _merge(document: Obj, other: Obj) -> None:
    paths = {path: item for path, item in other["paths"].items() if path not in document["paths"]}
    parts = _needed({part: other[part] for part in _PARTS}, paths)
    names = {part: _new_names(document.get(part) or {}, parts[part]) for part in _PARTS}
    references = {f"#/{part}/{old}": f"#/{part}/{new}" for part in _PARTS for old, new in names[part].items()}
    if references:
        paths, parts = _renamed(paths, references), _renamed(parts, references)
    added = {part: _joined(document.get(part) or {}, parts[part], names[part]) for part in _PARTS}
    document["paths"].update(paths)
    for part, found in added.items():
        if found:
            document.setdefault(part, {}).update(found)


def _joined(known: Obj, found: Obj, names: Mapping[str, str]) -> Obj:
    """Those by their names here, with what is known of the same."""
    named = {names.get(name, name): value for name, value in found.items()}
    return {name: _with_kinds(known[name], value) if name in known else value for name, value in named.items()}


def _new_names(known: Obj, found: Obj) -> dict[str, str]:
    """What has to be called otherwise: `NAME_v2`, or how the same is called already."""
    names, taken = dict[str, str](), set(known)
    for name, value in found.items():
        if name not in known or _is_same(known[name], value):
            continue
        number = 2
        while (new := f"{name}_v{number}") in known and not _is_same(known[new], value):
            number += 1
        while new not in known and (new in taken or new in found):
            number += 1
            new = f"{name}_v{number}"
        names[name] = new
        taken.add(new)
    return names


def _renamed(value: Any, references: Mapping[str, str]) -> Any:
    """A copy whose references lead to the new names."""
    if isinstance(value, list):
        return [_renamed(item, references) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: _renamed(item, references) for key, item in value.items()}
    if isinstance(reference := copy.get("$ref"), str):
        copy["$ref"] = references.get(reference, reference)
    return copy


def _is_same(one: Obj, other: Obj) -> bool:
    """Whether both say the same, of whatever kinds."""
    return {**one, _KINDS: None} == {**other, _KINDS: None}


def _with_kinds(one: Obj, other: Obj) -> Obj:
    """The same of the kinds of both."""
    known = one.get(_KINDS) or []
    new = [kind for kind in other.get(_KINDS) or () if kind not in known]
    if not new:
        return one
    return one | {_KINDS: sorted([*known, *new], key=lambda kind: (kind["group"], kind["version"], kind["kind"]))}
