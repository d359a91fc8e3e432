"""The messages of device plugins, and the calls that take them.

Source: k8s.io/kubelet `pkg/apis/deviceplugin/v1beta1/api.proto` (1.36).
"""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import Message

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"


class Options(Message, frozen=True):
    pre_start_required: Annotated[bool, 1] = False
    get_preferred_allocation_available: Annotated[bool, 2] = False


class RegisterRequest(Message, frozen=True):
    version: Annotated[str, 1] = ""
    endpoint: Annotated[str, 2] = ""
    resource_name: Annotated[str, 3] = ""
    options: Annotated[Options | None, 4] = None


class NumaNode(Message, frozen=True):
    id: Annotated[int, 1] = 0


class Topology(Message, frozen=True):
    nodes: Annotated[list[NumaNode], 1] = []


class Device(Message, frozen=True):
    id: Annotated[str, 1] = ""
    health: Annotated[str, 2] = ""
    topology: Annotated[Topology | None, 3] = None


class Devices(Message, frozen=True):
    devices: Annotated[list[Device], 1] = []


class PreStartRequest(Message, frozen=True):
    devices_ids: Annotated[list[str], 1] = []


class PreferenceRequest(Message, frozen=True):
    """Of a container."""

    available: Annotated[list[str], 1] = []
    must_include: Annotated[list[str], 2] = []
    allocation_size: Annotated[int, 3] = 0


class PreferenceRequests(Message, frozen=True):
    container_requests: Annotated[list[PreferenceRequest], 1] = []


class Preference(Message, frozen=True):
    device_ids: Annotated[list[str], 1] = []


class Preferences(Message, frozen=True):
    container_responses: Annotated[list[Preference], 1] = []


class AllocateRequest(Message, frozen=True):
    """For a container."""

    devices_ids: Annotated[list[str], 1] = []


class AllocateRequests(Message, frozen=True):
    container_requests: Annotated[list[AllocateRequest], 1] = []


class MountSpec(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    read_only: Annotated[bool, 3] = False


class DeviceSpec(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class CdiName(Message, frozen=True):
    name: Annotated[str, 1] = ""


class Allocated(Message, frozen=True):
    """What a container gets with its devices."""

    envs: Annotated[dict[str, str], 1] = {}
    mounts: Annotated[list[MountSpec], 2] = []
    devices: Annotated[list[DeviceSpec], 3] = []
    annotations: Annotated[dict[str, str], 4] = {}
    cdi_devices: Annotated[list[CdiName], 5] = []


class AllAllocated(Message, frozen=True):
    container_responses: Annotated[list[Allocated], 1] = []


REGISTER: Final = Method(f"/{VERSION}.Registration/Register", RegisterRequest, Nothing)

_PLUGIN: Final = f"/{VERSION}.DevicePlugin"
GET_OPTIONS: Final = Method(f"{_PLUGIN}/GetDevicePluginOptions", Nothing, Options)
LIST_AND_WATCH: Final = Method(f"{_PLUGIN}/ListAndWatch", Nothing, Devices)
GET_PREFERENCES: Final = Method(f"{_PLUGIN}/GetPreferredAllocation", PreferenceRequests, Preferences)
ALLOCATE: Final = Method(f"{_PLUGIN}/Allocate", AllocateRequests, AllAllocated)
PRE_START: Final = Method(f"{_PLUGIN}/PreStartContainer", PreStartRequest, Nothing)
