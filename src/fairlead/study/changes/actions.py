"""What steps do to objects: apply, patch, delete, scale, set one value. A new kind of step is a row in `table.py`."""

from __future__ import annotations

from typing import Any, ClassVar, dataclass_transform

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.node.configuration.decode import decode
from fairlead.server.registry.patching import decode_patch
from fairlead.study.changes.changed_cluster import ChangedCluster
from fairlead.study.changes.nodes import tell_kubelet
from fairlead.study.changes.settings import set_value, split


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The fields are what a file says after the word of the step; a bare text is the field `short`."""

    short: ClassVar[str] = ""
    #: It takes its time, and what is due later does not wait for it.
    is_long: ClassVar[bool] = False
    #: It goes on until the run ends.
    is_endless: ClassVar[bool] = False

    @property
    def text(self) -> str:
        """What it does, for people."""
        raise NotImplementedError

    @property
    def named_node(self) -> str:
        """The one node that it is about; none where it is about all with certain labels, or about something else."""
        return ""

    async def run(self, cluster: ChangedCluster) -> None:
        """Do it. Raises NothingThere for what the cluster does not have or refuses."""
        raise NotImplementedError


class Apply(Action):
    manifests: tuple[Obj, ...]

    @property
    def text(self) -> str:
        return "apply " + ", ".join(_named(manifest) for manifest in self.manifests)

    async def run(self, cluster: ChangedCluster) -> None:
        for manifest in self.manifests:
            await cluster.apply(manifest)


class Patch(Action):
    kind: str
    name: str
    #: As the file has it, then as the API takes it.
    patch: Any
    namespace: str = "default"
    api_version: str = ""
    type: str = "merge"

    @property
    def text(self) -> str:
        return f"patch {self.kind} {self.name}"

    def __post_init__(self) -> None:
        if self.type.upper() not in PatchType.__members__ or self.type.upper() == "APPLY":
            raise ValueError(f"type: {self.type!r} is no patch: write merge, strategic or json")
        try:
            decoded = decode_patch(msgspec.json.encode(self.patch), PatchType[self.type.upper()], "Strict")
        except ApiError as error:
            raise ValueError(str(error)) from None
        if decoded.strict_errors:
            raise ValueError("; ".join(decoded.strict_errors))
        msgspec.structs.force_setattr(self, "patch", decoded.body)

    async def run(self, cluster: ChangedCluster) -> None:
        kind = cluster.kind(self.kind, self.api_version)
        await cluster.patch(kind, self.name, self.namespace, self.patch, PatchType[self.type.upper()])


class Delete(Action):
    kind: str
    name: str
    namespace: str = "default"
    api_version: str = ""

    @property
    def text(self) -> str:
        return f"delete {self.kind} {self.name}"

    async def run(self, cluster: ChangedCluster) -> None:
        await cluster.delete(cluster.kind(self.kind, self.api_version), self.name, self.namespace)


class Scale(Action):
    name: str
    replicas: int
    kind: str = "deployment"
    namespace: str = "default"

    @property
    def text(self) -> str:
        return f"scale {self.kind} {self.name} to {self.replicas}"

    async def run(self, cluster: ChangedCluster) -> None:
        patch = {"spec": {"replicas": self.replicas}}
        await cluster.patch(cluster.kind(self.kind), self.name, self.namespace, patch, PatchType.MERGE)


class Set(Action):
    short: ClassVar[str] = "value"
    value: str

    @property
    def text(self) -> str:
        return f"set {self.value}"

    def __post_init__(self) -> None:
        split(self.value)

    async def run(self, cluster: ChangedCluster) -> None:
        await set_value(self.value, cluster)


class KubeletSetting(Action):
    """Fields of a KubeletConfiguration for the nodes with certain labels, or for all."""

    configuration: dict[str, Any]
    selector: str = ""

    @property
    def text(self) -> str:
        return f"kubelet {', '.join(self.configuration)} of {self.selector or 'all nodes'}"

    def __post_init__(self) -> None:
        _, unknown = decode(self.configuration)
        if unknown:
            raise ValueError("; ".join(unknown))

    async def run(self, cluster: ChangedCluster) -> None:
        told = msgspec.json.encode(self.configuration).decode()
        for node in cluster.nodes_of(self.selector):
            await tell_kubelet(node.metadata.name, told, cluster)


def _named(manifest: Obj) -> str:
    meta = manifest.get("metadata") or {}
    return (
        f"{manifest.get('kind')} {meta.get('namespace', '') + '/' if meta.get('namespace') else ''}{meta.get('name')}"
    )
