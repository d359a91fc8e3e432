"""Objects that tell of other objects: events of what they are about, a CronJob of its jobs."""

from __future__ import annotations

from fairlead.api.meta import Object, WrittenView
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource


class Reference(WrittenView):
    """A `v1.ObjectReference`."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""

    def encode(self) -> Obj:
        fields = {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": self.api_version,
            "resourceVersion": self.resource_version,
            "fieldPath": self.field_path,
        }
        return {key: value for key, value in fields.items() if value}


def reference(obj: Object, resource: Resource | None = None, field_path: str = "") -> Reference:
    """A reference to `obj`; name the resource where the view may lack its kind (items of a list do)."""
    return Reference(
        kind=resource.kind if resource else obj.kind,
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        uid=obj.metadata.uid,
        api_version=resource.api_version if resource else obj.api_version,
        resource_version=obj.metadata.resource_version,
        field_path=field_path,
    )
