"""The versions of a kind, as ownership needs them: every entry of `managedFields` speaks one.

What changed is asked once for every version that an owner speaks, so an object must be readable in all of them. Nearly
every kind has a single version, for which nothing is ever converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj
from fairlead.caches import LruCache
from fairlead.server.apply.fieldsets import Fields
from fairlead.server.apply.shapes import Atom, Compiler
from fairlead.server.codec.normalise import zero_object
from fairlead.server.codec.versions import Convert, ServedVersion
from fairlead.server.openapi import custom
from fairlead.server.openapi.definitions import V3, definition

#: How many kinds of new objects a form remembers.
_BIRTHS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class VersionForm:
    """A kind in one version."""

    api_version: str
    atom: Atom
    #: The empty object.
    zero: Callable[[], Obj]
    to_stored: Convert | None = None
    from_stored: Convert | None = None
    #: Whether the schema may change while objects exist.
    is_custom: bool = False
    #: Whether only a webhook converts into other versions, for which nobody waits here.
    is_apart: bool = False
    #: The fields that a create owns, cached by the values that they depend on (`managers.py`).
    births: LruCache[bytes, Fields] = field(default_factory=lambda: LruCache(_BIRTHS_KEPT), compare=False)

    def of(self, obj: Obj, source: VersionForm | None = None) -> Obj:
        """An object in this form, itself if nothing is to be done. `source` is its form, if not the stored one."""
        back = source.to_stored if source else None
        if source is self or not (back or self.from_stored):
            return obj
        obj = copied(obj)
        if back:
            obj = back(obj)
        return self.from_stored(obj) if self.from_stored else obj


#: Finds the form of an apiVersion; None if it is not served (any more).
Forms = Callable[[str], VersionForm | None]

_BUILTIN = Compiler(lambda name: definition(name, V3))


def forms_of(versions: Mapping[str, ServedVersion], stored: str, crd: Obj | None) -> Forms:
    """The forms of a kind, to be kept with it: what is compiled for one request serves the next.

    `stored` is the apiVersion in which it is stored, `crd` the definition of a custom kind.
    """
    found: dict[str, VersionForm] = {}

    def form(api_version: str) -> VersionForm | None:
        if api_version not in found and api_version in versions:
            version = versions[api_version]
            found[api_version] = _form(version) if crd is None else _custom_form(version, versions.get(stored), crd)
        return found.get(api_version)

    return form


def form_of_definition(api_version: str, name: str) -> VersionForm:
    """The form of a built-in type that is not stored, as a Scale."""
    return VersionForm(api_version, _BUILTIN.named(name), lambda: zero_object(name))


def _form(version: ServedVersion) -> VersionForm:
    row = version.resource
    to_stored = _normalised(version) if version.to_stored else None
    return VersionForm(
        row.api_version,
        _BUILTIN.named(row.definition),
        lambda: zero_object(row.definition),
        to_stored,
        version.from_stored,
    )


def _custom_form(version: ServedVersion, stored: ServedVersion | None, crd: Obj) -> VersionForm:
    row = version.resource
    atom = _BUILTIN.place(custom.definitions(row, crd, V3)[custom.definition_name(row)])
    if version.converter is not None:
        return VersionForm(row.api_version, atom, dict, is_custom=True, is_apart=True)
    to_stored = None if stored is None or stored is version else _normalised(stored)
    return VersionForm(row.api_version, atom, dict, to_stored, version.from_stored, is_custom=True)


def _normalised(version: ServedVersion) -> Convert:
    """A conversion that also takes what has just been merged."""
    convert = version.to_stored or copied

    def to_stored(obj: Obj) -> Obj:
        version.normalise(obj)
        return convert(obj)

    return to_stored
