"""`scale`: the number of replicas of anything, as an `autoscaling/v1` Scale."""

from __future__ import annotations

from fairlead.api.encoded import encoded
from fairlead.api.errors import NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.kinds.scale import scale_of, scaled, validate_scale
from fairlead.server.apply.field_managers import scale_field_manager_of
from fairlead.server.apply.managers import FieldManager
from fairlead.server.apply.scale import SCALE_DEFINITION, ReplicaPaths, to_object, to_scale
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.codec.versions import Normalise, ServedVersion
from fairlead.server.context import WriteRequest
from fairlead.server.crds.custom import CustomStrategy
from fairlead.server.crds.paths import keys_of
from fairlead.server.crds.scale import ScalePaths
from fairlead.server.storage.catalogue import Served
from fairlead.server.subresources.endpoint import Endpoint


class ScaleEndpoint(Endpoint):
    """`scale`: the number of replicas, as an `autoscaling/v1` Scale."""

    is_whole = False

    def normalise(self, version: ServedVersion, *, is_applied: bool = False) -> Normalise:
        return body_type_of(version.resource, "scale").normalise

    def definition(self, version: ServedVersion) -> str:
        return SCALE_DEFINITION

    def kind(self, version: ServedVersion) -> str:
        return "Scale"

    def field_manager(self, served: Served, write: WriteRequest) -> FieldManager:
        return scale_field_manager_of(write)

    def default(self, served: Served, sent: Obj) -> None:
        """A Scale has no defaults."""

    def edited(self, served: Served, obj: Obj) -> Obj:
        if isinstance(served.strategy, CustomStrategy):
            scale = _custom_scale(served.strategy, obj).edited(obj)
        else:
            scale = scale_of(obj)
        if owners := to_scale(metadata(obj).get("managedFields"), _replicas(served)):
            metadata(scale)["managedFields"] = owners
        return scale

    def shown(self, served: Served, obj: Obj) -> Obj:
        if isinstance(served.strategy, CustomStrategy):
            return _custom_scale(served.strategy, obj).read(obj)
        return scale_of(obj)

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        if isinstance(served.strategy, CustomStrategy):
            new = encoded(old).obj()
            _custom_scale(served.strategy, old).write(new, sent)
        else:
            new = scaled(old, sent)
        errors = Errors()
        validate_scale(sent, errors)
        errors.raise_invalid("Scale", name_of(old), "autoscaling")
        new["metadata"] = meta = dict(metadata(old))
        owners = to_object(
            meta.pop("managedFields", None), metadata(sent).get("managedFields"), _replicas(served), old["apiVersion"]
        )
        if owners:
            meta["managedFields"] = owners
        self.count_generation(served, new, old)
        return new


def _replicas(served: Served) -> ReplicaPaths:
    """Where the replicas of a kind are, in each of its versions."""
    if not isinstance(served.strategy, CustomStrategy):
        return {served.resource.api_version: ("f:spec", "f:replicas")}
    return {
        version: tuple(f"f:{key}" for key in keys_of(schema.scale.spec_path)) if schema.scale else None
        for version, schema in served.strategy.versions.items()
    }


def _custom_scale(strategy: CustomStrategy, obj: Obj) -> ScalePaths:
    scale = strategy.of(obj).scale
    if scale is None:
        raise NotFound("the server could not find the requested resource")
    return scale
