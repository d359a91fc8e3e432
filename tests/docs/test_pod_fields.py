"""Every field of a PodSpec has a row that says what a real node makes of it, and the page shows the rows."""

from __future__ import annotations

from collections.abc import Iterator

from docs.build import POD_FIELDS
from docs.pod_fields import page
from fairlead.agent.pods.unsupported import ROOT, Verdict, fields, refusal
from fairlead.api.objects import Obj
from fairlead.server.codec.schemas import definition

_POD_SPEC = f"io.k8s.api.core.v1.{ROOT}"
_REF = "#/$defs/"


def _type_of(node: Obj) -> str:
    """The definition of a field's value, or of the values in its list, where that has fields itself."""
    found = next((each["$ref"] for each in (node, node.get("items") or {}) if "$ref" in each), "")
    name = found.removeprefix(_REF)
    return name if name and "properties" in definition(name) else ""


def _types(name: str = _POD_SPEC, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """A type, and the types of those of its fields that are not refused as a whole."""
    if name in seen:
        return
    yield name
    rows = fields().get(_short(name), {})
    for field, node in definition(name)["properties"].items():
        row, type_ = rows.get(field), _type_of(node)
        is_refused = row is not None and row.verdict is Verdict.REFUSED and not row.values
        if type_ and not is_refused:
            yield from _types(type_, seen | {name})


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def test_every_field_of_the_openapi_definitions_has_its_row() -> None:
    for name in set(_types()):
        declared = {field: _short(_type_of(node)) for field, node in definition(name)["properties"].items()}
        rows = {row.name: row for row in fields().get(_short(name), {}).values()}
        assert rows.keys() == declared.keys(), f"rows of {_short(name)} in agent/pods/pod_fields.txt"
        for field, row in rows.items():
            if row.verdict is not Verdict.REFUSED or row.values:
                assert row.type == declared[field], f"type of {_short(name)}.{field}"


def test_no_row_is_of_a_type_that_no_pod_has() -> None:
    assert fields().keys() == {_short(name) for name in _types()}


def test_what_is_refused_or_limited_says_why() -> None:
    silent = [
        f"{type_}.{row.name}"
        for type_, rows in fields().items()
        for row in rows.values()
        if row.verdict is not Verdict.WORKS and not row.note
    ]
    assert not silent


def test_a_refused_value_is_named_and_the_others_are_taken() -> None:
    def asked(medium: str) -> str:
        volumes = [{"name": "v", "emptyDir": {"medium": medium}}]
        found = refusal({"spec": {"containers": [], "volumes": volumes}})
        return found.message if found is not None else ""

    assert asked("HugePages-2Mi") == "spec.volumes[0].emptyDir.medium HugePages-2Mi is not supported by this node"
    assert asked("Memory") == asked("") == ""


def test_the_page_is_that_of_this_code() -> None:
    assert POD_FIELDS.read_text() == page(), "run: python -m docs.build"
