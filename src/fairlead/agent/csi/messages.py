"""The messages of the node service of CSI as far as we use them. Source: csi.proto of the specification, 1.12."""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import Message

#: Of a node service: it wants to make a volume ready on the node once, before pods get it.
STAGE: Final = 1
#: The same: it tells how full volumes are, and has their file system grow.
GET_STATS: Final = 2
EXPAND: Final = 3
#: The same: it tells one writer on a node from several.
SINGLE_NODE_MULTI_WRITER: Final = 5
#: The same: it gives volumes to the group of a pod itself.
MOUNT_GROUP: Final = 6


class Topology(Message, frozen=True):
    segments: Annotated[dict[str, str], 1] = {}


class NodeInfo(Message, frozen=True):
    node_id: Annotated[str, 1] = ""
    max_volumes_per_node: Annotated[int, 2] = 0
    accessible_topology: Annotated[Topology | None, 3] = None


class Rpc(Message, frozen=True):
    type: Annotated[int, 1] = 0


class Capability(Message, frozen=True):
    rpc: Annotated[Rpc | None, 1] = None


class Capabilities(Message, frozen=True):
    capabilities: Annotated[list[Capability], 1] = []


class MountVolume(Message, frozen=True):
    fs_type: Annotated[str, 1] = ""
    mount_flags: Annotated[list[str], 2] = []
    volume_mount_group: Annotated[str, 3] = ""


class AccessMode(Message, frozen=True):
    mode: Annotated[int, 1] = 0


class BlockVolume(Message, frozen=True):
    """As a device; there is no more to say of it."""


class VolumeCapability(Message, frozen=True):
    #: One of the two.
    block: Annotated[BlockVolume | None, 1] = None
    mount: Annotated[MountVolume | None, 2] = None
    access_mode: Annotated[AccessMode, 3] = AccessMode()


class Stage(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[dict[str, str], 2] = {}
    staging_target_path: Annotated[str, 3] = ""
    volume_capability: Annotated[VolumeCapability, 4] = VolumeCapability()
    secrets: Annotated[dict[str, str], 5] = {}
    volume_context: Annotated[dict[str, str], 6] = {}


class Unstage(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    staging_target_path: Annotated[str, 2] = ""


class Publish(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[dict[str, str], 2] = {}
    staging_target_path: Annotated[str, 3] = ""
    target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability, 5] = VolumeCapability()
    readonly: Annotated[bool, 6] = False
    secrets: Annotated[dict[str, str], 7] = {}
    volume_context: Annotated[dict[str, str], 8] = {}


class Unpublish(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    target_path: Annotated[str, 2] = ""


class CapacityRange(Message, frozen=True):
    required_bytes: Annotated[int, 1] = 0
    limit_bytes: Annotated[int, 2] = 0


class Expand(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""
    capacity_range: Annotated[CapacityRange | None, 3] = None
    staging_target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability, 5] = VolumeCapability()
    secrets: Annotated[dict[str, str], 6] = {}


class StatsRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""
    staging_target_path: Annotated[str, 3] = ""


class Usage(Message, frozen=True):
    available: Annotated[int, 1] = 0
    total: Annotated[int, 2] = 0
    used: Annotated[int, 3] = 0
    unit: Annotated[int, 4] = 0


class Stats(Message, frozen=True):
    usage: Annotated[list[Usage], 1] = []


#: Of usage.
BYTES, INODES = 1, 2

_NODE: Final = "/csi.v1.Node"
GET_INFO: Final = Method(f"{_NODE}/NodeGetInfo", Nothing, NodeInfo)
GET_CAPABILITIES: Final = Method(f"{_NODE}/NodeGetCapabilities", Nothing, Capabilities)
STAGE_VOLUME: Final = Method(f"{_NODE}/NodeStageVolume", Stage, Nothing)
UNSTAGE_VOLUME: Final = Method(f"{_NODE}/NodeUnstageVolume", Unstage, Nothing)
PUBLISH_VOLUME: Final = Method(f"{_NODE}/NodePublishVolume", Publish, Nothing)
UNPUBLISH_VOLUME: Final = Method(f"{_NODE}/NodeUnpublishVolume", Unpublish, Nothing)
EXPAND_VOLUME: Final = Method(f"{_NODE}/NodeExpandVolume", Expand, Nothing)
GET_VOLUME_STATS: Final = Method(f"{_NODE}/NodeGetVolumeStats", StatsRequest, Stats)
