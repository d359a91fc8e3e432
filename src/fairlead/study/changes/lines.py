"""On which line of a YAML text something stands, for those who have to mend it."""

from __future__ import annotations

from collections.abc import Sequence

import yaml


def line_of(text: bytes, document: int, path: Sequence[str | int] = ()) -> int:
    """The line (from 1) of what `path` leads to in a document, or of the last part of the way that is there."""
    try:
        nodes = list(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        node = nodes[document]
    except (yaml.YAMLError, IndexError):
        return 0
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
