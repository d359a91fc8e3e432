"""Objects under field ownership, without a registry: what `server/apply` does on its own."""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj
from fairlead.server.apply.forms import form_of_definition
from fairlead.server.apply.managers import FieldManager
from fairlead.server.apply.ownership import apply, track
from fairlead.server.apply.resets import reset_of
from fairlead.server.codec.normalise import normalise

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
POD = "io.k8s.api.core.v1.Pod"
STAMP = "2026-01-01T00:00:00Z"


class World:
    """One object of a built-in kind and those who write to it."""

    def __init__(self, definition: str, api_version: str = "v1") -> None:
        self._definition, self._kind = definition, definition.rpartition(".")[2]
        self._form = form_of_definition(api_version, definition)
        self.obj: Obj | None = None

    def apply(self, manager: str, *, force: bool = False, now: str = STAMP, **fields: Any) -> Obj:
        config = {"apiVersion": self._form.api_version, "kind": self._kind, "metadata": {"name": "x"}, **fields}
        merged = apply(self.obj, config, self._kind, self._writer(manager, now), force=force)
        return self._keep(merged)

    def update(self, manager: str, subresource: str = "", now: str = STAMP, **fields: Any) -> Obj:
        base: Obj = copied(self.obj) if self.obj else {"metadata": {"name": "x"}}
        new = self._normal(base | fields)
        track(new, self.obj, self._writer(manager, now, subresource))
        return self._keep(new)

    def owners(self) -> dict[str, Any]:
        """What each manager owns."""
        assert self.obj is not None
        return {entry["manager"]: entry["fieldsV1"] for entry in self.obj["metadata"].get("managedFields", ())}

    def _writer(self, manager: str, now: str, subresource: str = "") -> FieldManager:
        form = self._form
        reset = reset_of("", subresource, has_status=True, is_custom=False)
        return FieldManager(manager, form, {form.api_version: form}.get, now, subresource, reset)

    def _normal(self, obj: Obj) -> Obj:
        normalise(obj, self._definition)
        return obj

    def _keep(self, obj: Obj) -> Obj:
        self.obj = self._normal(obj)
        self.obj["metadata"]["uid"] = "u"
        return self.obj
