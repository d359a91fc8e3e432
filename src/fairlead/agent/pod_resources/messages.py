"""The messages of the PodResources API, and the calls that are answered.

Source: k8s.io/kubelet `pkg/apis/podresources/v1/api.proto` (1.36).
"""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.device_plugins.messages import CdiName, Topology
from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import Message


class ContainerDevices(Message, frozen=True):
    resource_name: Annotated[str, 1] = ""
    device_ids: Annotated[list[str], 2] = []
    topology: Annotated[Topology | None, 3] = None


class ClaimResource(Message, frozen=True):
    cdi_devices: Annotated[list[CdiName], 1] = []
    driver_name: Annotated[str, 2] = ""
    pool_name: Annotated[str, 3] = ""
    device_name: Annotated[str, 4] = ""
    share_id: Annotated[str | None, 5] = None


class DynamicResource(Message, frozen=True):
    claim_name: Annotated[str, 2] = ""
    claim_namespace: Annotated[str, 3] = ""
    claim_resources: Annotated[list[ClaimResource], 4] = []


class ContainerMemory(Message, frozen=True):
    memory_type: Annotated[str, 1] = ""
    size: Annotated[int, 2] = 0
    topology: Annotated[Topology | None, 3] = None


class ContainerResources(Message, frozen=True):
    name: Annotated[str, 1] = ""
    devices: Annotated[list[ContainerDevices], 2] = []
    cpu_ids: Annotated[list[int], 3] = []
    memory: Annotated[list[ContainerMemory], 4] = []
    dynamic_resources: Annotated[list[DynamicResource], 5] = []


class PodResources(Message, frozen=True):
    name: Annotated[str, 1] = ""
    namespace: Annotated[str, 2] = ""
    containers: Annotated[list[ContainerResources], 3] = []


class Listed(Message, frozen=True):
    pod_resources: Annotated[list[PodResources], 1] = []


class Allocatable(Message, frozen=True):
    devices: Annotated[list[ContainerDevices], 1] = []
    cpu_ids: Annotated[list[int], 2] = []
    memory: Annotated[list[ContainerMemory], 3] = []


class GetRequest(Message, frozen=True):
    pod_name: Annotated[str, 1] = ""
    pod_namespace: Annotated[str, 2] = ""


class Got(Message, frozen=True):
    pod_resources: Annotated[PodResources | None, 1] = None


_LISTER: Final = "/v1.PodResourcesLister"
LIST: Final = Method(f"{_LISTER}/List", Nothing, Listed)
#: What older exporters ask: the same in fewer fields, and who reads an answer passes over what it does not know.
LIST_V1ALPHA1: Final = Method("/v1alpha1.PodResourcesLister/List", Nothing, Listed)
GET_ALLOCATABLE: Final = Method(f"{_LISTER}/GetAllocatableResources", Nothing, Allocatable)
GET: Final = Method(f"{_LISTER}/Get", GetRequest, Got)
