"""The scale subresource of a custom kind: three paths into the object stand for an `autoscaling/v1` Scale."""

from __future__ import annotations

from typing import Any

from fairlead.api.errors import BadRequest, InternalError
from fairlead.api.objects import Obj
from fairlead.golang.values import printed, type_of
from fairlead.kinds.scale import new_scale
from fairlead.server.crds.paths import keys_of
from fairlead.server.crds.values import Problems

_INT32_MAX = 2**31 - 1
#: As kube-apiserver marks it.
_UNSAID = -(2**31)


class ScalePaths:
    """Reads and writes replicas by the paths of `spec.versions[*].subresources.scale`."""

    def __init__(self, paths: Obj) -> None:
        self.spec_path: str = paths["specReplicasPath"]
        self.status_path: str = paths["statusReplicasPath"]
        self.selector_path: str = paths.get("labelSelectorPath") or ""

    def read(self, obj: Obj) -> Obj:
        """The Scale of an object that says how many replicas it wants."""
        if _at(obj, self.spec_path) is None:
            raise InternalError(f'Internal error occurred: the spec replicas field "{self.spec_path}" does not exist')
        return self.edited(obj)

    def edited(self, obj: Obj) -> Obj:
        """What a patch of the Scale starts from; the object may not have said yet how many replicas it wants."""
        replicas = _at(obj, self.spec_path)
        if replicas is None:
            replicas = _UNSAID
        selector = _at(obj, self.selector_path) if self.selector_path else ""
        return new_scale(obj, replicas, _at(obj, self.status_path) or 0, selector or "")

    def write(self, obj: Obj, scale: Obj) -> None:
        """Put the replicas of a Scale into the object."""
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        if replicas == _UNSAID:
            raise BadRequest(f'the spec replicas field "{self.spec_path}" cannot be empty')
        *parents, last = keys_of(self.spec_path)
        at = obj
        for key in parents:
            at = at.setdefault(key, {})
        at[last] = replicas

    def check_spec(self, obj: Obj, found: Problems) -> None:
        _check_replicas(obj, self.spec_path, found)

    def check_status(self, obj: Obj, found: Problems) -> None:
        _check_replicas(obj, self.status_path, found)
        if not self.selector_path:
            return
        selector, text = _found(obj, self.selector_path)
        if selector is not None and not isinstance(selector, str):
            type_ = type_of(selector)
            text = f"{self.selector_path} accessor error: {printed(selector)} is of the type {type_}, expected string"
        if text is not None:
            found.invalid(f".{self.selector_path}", "", text)


def _check_replicas(obj: Obj, path: str, found: Problems) -> None:
    where = f".{path}"  # upstream takes the whole path, with its leading dot, for the name of the field
    value, wrong = _found(obj, path)
    if wrong is not None:
        found.invalid(where, 0, wrong)
        return
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        found.invalid(
            where, 0, f"{path} accessor error: {printed(value)} is of the type {type_of(value)}, expected int64"
        )
    elif value < 0:
        found.invalid(where, value, "should be a non-negative integer")
    elif value > _INT32_MAX:
        found.invalid(where, value, f"should be less than or equal to {_INT32_MAX}")


def _found(obj: Obj, path: str) -> tuple[Any, str | None]:
    """The value at a path, if any, and what is said of one on the way that has no fields (`NestedFieldNoCopy`)."""
    at: Any = obj
    keys = keys_of(path)
    for index, key in enumerate(keys):
        if at is None:
            break
        if not isinstance(at, dict):
            way, found = ".".join(keys[: index + 1]), f"{printed(at)} is of the type {type_of(at)}"
            return None, f".{way} accessor error: {found}, expected map[string]interface{{}}"
        at = at.get(key)
    return at, None


def _at(obj: Obj, path: str) -> Any:
    return _found(obj, path)[0]
