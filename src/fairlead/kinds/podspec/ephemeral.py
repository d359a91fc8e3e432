"""`pods/ephemeralcontainers`: containers added to a running pod to look into it (KEP-277). They never leave again."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.podspec.annotations import is_mirror
from fairlead.kinds.podspec.differences import difference, is_same
from fairlead.kinds.podspec_form import struct_form

_PATH = "spec.ephemeralContainers"


def keep_only_ephemeral_containers(new: Obj, old: Obj) -> None:
    """Take from `new` the ephemeral containers alone."""
    containers = new["spec"].get("ephemeralContainers")
    new["spec"] = {field: value for field, value in old["spec"].items() if field != "ephemeralContainers"}
    if containers:
        new["spec"]["ephemeralContainers"] = containers


def validate_ephemeral_update(new: Obj, old: Obj, errors: Errors) -> None:
    """The rules of the change; those of the specification itself are checked before."""
    if is_mirror(old):
        errors.clear()
        return errors.forbidden("[]", "static pods do not support ephemeral containers")
    by_name = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or ()}
    for was in old["spec"].get("ephemeralContainers") or ():
        name = go_quote(was.get("name", ""))
        container = by_name.get(was.get("name"))
        if container is None:
            errors.forbidden(_PATH, f"existing ephemeral containers {name} may not be removed\n")
        elif not is_same(container, was):
            text = f"existing ephemeral containers {name} may not be changed\n"
            if errors.has_room:
                text += difference(*(struct_form("EphemeralContainer", each) for each in (was, container)))
            errors.forbidden(_PATH, text)
    return None
