"""Writes `facts.txt`: enums and declared defaults, which the OpenAPI that Kubernetes publishes leaves out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tools.kubernetes_facts.gosource import GoField
from tools.kubernetes_facts.sources import Sources, by_package

HEADER: Final = """\
# Facts of the built-in types of Kubernetes {release} that its servers show in OpenAPI, read by facts.py. Made by
# tools/kubernetes_facts from the markers `+enum` and `+default` of the Go declarations, for the types of wire.txt.
# A line without indentation is a Go package by its OpenAPI name. Below it:
#   Type: value|value|...          a string type that takes these values only
#   Struct.field = value           a default that the type declares, as JSON
"""
_REFERENCE: Final = re.compile(r"ref\((\w+)\)")


def facts_lines(sources: Sources, definitions: Iterable[str]) -> Iterator[str]:
    """The lines of the table for all definitions, `definitions` being those of the wire table."""
    package = ""
    for definition in sorted(definitions, key=by_package):
        lines = [*_enum(sources, definition), *_defaults(sources, definition)]
        here = definition.rpartition(".")[0]
        if lines and here != package:
            package = here
            yield package
        yield from lines


def _enum(sources: Sources, definition: str) -> Iterator[str]:
    package, _, name = definition.rpartition(".")
    if "enum" in sources.type(definition).markers:
        constants = sources.package(package).constants.items()
        values = sorted({sources.constant(package, key) for key, constant in constants if constant.type == name})
        yield f" {name}: {'|'.join(values)}"


def _defaults(sources: Sources, definition: str) -> Iterator[str]:
    package, _, name = definition.rpartition(".")
    for field in sources.type(definition).fields:
        if "default" in field.markers:
            json_name = field.tags["json"].partition(",")[0]
            yield f" {name}.{json_name} = {json.dumps(_default(sources, package, field))}"


def _default(sources: Sources, package: str, field: GoField) -> Any:
    text = field.markers["default"]
    reference = _REFERENCE.fullmatch(text)
    return sources.constant(package, reference[1]) if reference else json.loads(text)
