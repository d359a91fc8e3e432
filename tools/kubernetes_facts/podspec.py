"""Writes `podspec_internal.txt`: the internal types of a pod's specification, and of a volume's, as upstream's errors
print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fairlead.kinds.podspec_form import json_name_of
from tools.kubernetes_facts.gosource import GoField
from tools.kubernetes_facts.sources import Sources

HEADER: Final = """\
# The internal types of a pod specification, and of what a PersistentVolume is, in Kubernetes {release}, read by
# podspec_form.py. Made by tools/kubernetes_facts from pkg/apis/core/types.go; the JSON names come from the published
# types.
# One line a struct: its fields in order, each `GoName type` or, where the JSON name does not follow from the Go name,
# `GoName=jsonName type`. Types: s text, i number, b truth, q quantity, t time, {{}} a map, @ a label selector, [] a
# list, * a pointer, else the name of a struct; ^ inlines a struct, ^@meta object metadata.
"""
_INTERNAL: Final = "io.k8s.kubernetes.pkg.apis.core"
_ROOTS: Final = (f"{_INTERNAL}.PodSpec", f"{_INTERNAL}.PersistentVolumeSource")
_PUBLISHED: Final = "io.k8s.api.core.v1"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
#: How the table writes a type that is no struct of its own.
_CODES: Final = {
    "string": "s",
    "bool": "b",
    "int32": "i",
    "int64": "i",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "i",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "q",
    f"{_META}.Time": "t",
    f"{_META}.LabelSelector": "@",
    f"{_META}.ObjectMeta": "@meta",
}
_PREFIX: Final = re.compile(r"(?:\*|\[\])*")


def podspec_lines(sources: Sources) -> Iterator[str]:
    """A line for every struct that these specifications consist of."""
    rows: dict[str, str] = {}
    waiting = [*_ROOTS]
    while waiting:
        struct = waiting.pop()
        name = struct.rpartition(".")[2]
        if name not in rows:
            fields = [(field, _code(sources, field, struct)) for field in sources.type(struct).fields]
            rows[name] = ", ".join(_field(sources, field, name, code) for field, (code, _) in fields)
            waiting += [used for _, (_, used) in fields if used]
    for name in sorted(rows):
        yield f"{name}: {rows[name]}"


def _code(sources: Sources, field: GoField, struct: str) -> tuple[str, str]:
    """How the type of a field is written, and the struct that it leads to."""
    text = sources.full(field.type, struct)
    prefix = _PREFIX.match(text)[0]  # type: ignore[index]  # it matches nothing, too
    name = text.removeprefix(prefix)
    while name not in _CODES:
        if name.startswith("map["):
            return prefix + "{}", ""
        declared = sources.type(name)
        if declared.is_struct:
            return prefix + name.rpartition(".")[2], name
        name = sources.full(declared.underlying, name)
    return prefix + _CODES[name], ""


def _field(sources: Sources, field: GoField, struct: str, code: str) -> str:
    if not field.name:
        return f"^{code}"
    published = sources.package(_PUBLISHED).types.get(struct)
    tags = [same.tags for same in published.fields if same.name == field.name] if published else []
    shown = tags[0]["json"].partition(",")[0] if tags else ""
    return f"{field.name}={shown} {code}" if shown and shown != json_name_of(field.name) else f"{field.name} {code}"
