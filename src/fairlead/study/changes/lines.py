"""On which line of a YAML text something stands, for those who have to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import yaml


class Lines:
    """Of one text, which is taken apart when the first line is asked for."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    @cached_property
    def _documents(self) -> list[yaml.Node | None]:
        try:
            return list(yaml.compose_all(self._text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except yaml.YAMLError:
            return []

    def of(self, document: int, path: Sequence[str | int] = ()) -> int:
        """The line (from 1) of what `path` leads to in a document, or of the last part of the way that is there."""
        node = self._documents[document] if document < len(self._documents) else None
        if node is None:
            return 0
        line: int = node.start_mark.line + 1
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child.start_mark.line + 1, child
    return None
