"""Where in a dump an object stands, for those who have to mend it: looked for only when something is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from fairlead.api.objects import Obj, metadata
from fairlead.sim.dump_text import pieces
from fairlead.sim.manifests import STDIN

#: A larger text is not taken apart for a line: its parser takes half a second a megabyte.
_LARGEST: Final = 16 << 20


def place_of(about: Obj | None, paths: Sequence[Path]) -> str:
    """`prod.yaml, line 17`: the file and the line where the object begins; all the files, where that is not known."""
    if about is not None:
        for path in paths:
            if path != STDIN and (line := _line_of(about, path.read_bytes())):
                return f"{path}, line {line}"
    return ", ".join(map(str, paths))


def _line_of(about: Obj, text: bytes) -> int:
    """From 1; 0 if it is not found."""
    if len(text) > _LARGEST:
        return 0
    meta = metadata(about)
    wanted = str(about.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name") or "")
    try:
        for piece in pieces(text):
            for document in yaml.compose_all(piece.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                for node, kind in _objects(document):
                    if _identity(node, kind) == wanted:
                        line: int = node.start_mark.line
                        return piece.line + line + 1
    except (yaml.YAMLError, RecursionError):  # JSON may be no YAML
        pass
    return 0


def _objects(node: yaml.Node | None, kind: str = "") -> Iterator[tuple[yaml.Node, str]]:
    """The objects of a document and their kinds, lists taken apart."""
    items, kind = _child(node, "items"), _text(node, "kind") or kind
    if isinstance(items, yaml.SequenceNode) and kind.endswith("List"):
        for item in items.value:
            yield from _objects(item, kind.removesuffix("List"))
    elif node is not None:
        yield node, kind


def _identity(node: yaml.Node, kind: str) -> tuple[str, str, str]:
    meta = _child(node, "metadata")
    return kind, _text(meta, "namespace") or "default", _text(meta, "name")


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _text(node: yaml.Node | None, key: str) -> str:
    child = _child(node, key)
    return str(child.value) if isinstance(child, yaml.ScalarNode) else ""
