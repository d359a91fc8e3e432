"""A whole pod specification, and what it consists of, as upstream's errors print it.

Whoever changes the template of a job is shown all of it, and whoever changes a pod or a claim what differs: of the
internal type, under Go's names, with everything unset as null, "" or 0. The types stand in `podspec_internal.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.kinds.rules import map_form, selector_form

_ZEROS: Final[Mapping[str, Any]] = {"s": "", "i": 0, "b": False, "q": "0", "t": None}
_CAPITALS: Final = re.compile("[A-Z]+")
#: What the API has in the pod's spec and the internal type in its security context.
_HOST_FIELDS: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")

_Form = Callable[[Any], Any]


def pod_spec_form(spec: Obj) -> Obj:
    """The spec of a pod or of a template."""
    context = dict(spec.get("securityContext") or {})
    context.update({field: spec[field] for field in _HOST_FIELDS if field in spec})
    return struct_form("PodSpec", spec | {"securityContext": context})


def template_form(template: Obj) -> Obj:
    """A whole template; its metadata is of a type that has JSON names."""
    meta = {key: map_form(value) if isinstance(value, dict) else value for key, value in template["metadata"].items()}
    return meta | {"Spec": pod_spec_form(template["spec"])}


def struct_form(name: str, value: Obj) -> Obj:
    """Another of the types."""
    form: Obj = _struct(name)(value)
    return form


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath("podspec_internal.txt").read_text("utf-8")
    found = (line.partition(": ") for line in text.splitlines() if not line.startswith("#"))
    return {name: fields for name, _, fields in found}


@cache
def _struct(name: str) -> _Form:
    fields = [_field(text) for text in _lines()[name].split(", ")]

    def form(value: Any) -> Any:
        shown: Obj = {}
        for key, json_name, look in fields:
            if key:
                shown[key] = look(value.get(json_name))
            else:
                shown |= look(value)
        return shown

    return form


def _field(text: str) -> tuple[str, str, _Form]:
    """Go name, JSON name and form; an inlined struct has no names."""
    if text == "^@meta":
        return "", "", lambda value: value.get("metadata") or {}
    if text.startswith("^"):
        return "", "", _struct(text[1:])
    name, kind = text.split()
    go, _, json_name = name.partition("=")
    return go, json_name or json_name_of(go), _form(kind)


def _form(kind: str) -> _Form:
    if kind in _ZEROS:
        zero = _ZEROS[kind]
        return lambda value: zero if value is None else value
    if kind == "{}":
        return map_form
    if kind == "@":
        return selector_form
    if kind.startswith("*"):
        return _nullable(_form(kind[1:]))
    if kind.startswith("[]"):
        element = _form(kind[2:])
        return _nullable(lambda value: [element(item) for item in value])
    return lambda value: _struct(kind)(value or {})


def _nullable(form: _Form) -> _Form:
    return lambda value: None if value is None else form(value)


def json_name_of(go: str) -> str:
    """`hostPID` for `HostPID`, `dnsPolicy` for `DNSPolicy`, `os` for `OS`."""
    found = _CAPITALS.match(go)
    run = found.end() if found else 0
    if run in (1, len(go)):
        return go[:run].lower() + go[run:]
    return go[: run - 1].lower() + go[run - 1 :]
