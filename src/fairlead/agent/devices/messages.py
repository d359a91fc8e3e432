"""The messages of drivers of devices as far as we use them, and the calls that take them.

Source: k8s.io/kubelet `pkg/apis/dra/{v1,v1beta1}/api.proto` and `pkg/apis/dra-health/v1alpha1/api.proto` (1.36). The
versions of the first differ by `share_id` alone.
"""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import Message


class Claim(Message, frozen=True):
    namespace: Annotated[str, 1] = ""
    uid: Annotated[str, 2] = ""
    name: Annotated[str, 3] = ""


class Claims(Message, frozen=True):
    """What is to be prepared, or given back."""

    claims: Annotated[list[Claim], 1] = []


class Device(Message, frozen=True):
    request_names: Annotated[list[str], 1] = []
    pool_name: Annotated[str, 2] = ""
    device_name: Annotated[str, 3] = ""
    cdi_device_ids: Annotated[list[str], 4] = []
    share_id: Annotated[str | None, 5] = None


class Prepared(Message, frozen=True):
    devices: Annotated[list[Device], 1] = []
    error: Annotated[str, 2] = ""


class PreparedOf(Message, frozen=True):
    """An entry of a map: the uid of a claim, and what has become of it."""

    uid: Annotated[str, 1] = ""
    result: Annotated[Prepared, 2] = Prepared()


class PreparedClaims(Message, frozen=True):
    claims: Annotated[list[PreparedOf], 1] = []


class Unprepared(Message, frozen=True):
    error: Annotated[str, 1] = ""


class UnpreparedOf(Message, frozen=True):
    uid: Annotated[str, 1] = ""
    result: Annotated[Unprepared, 2] = Unprepared()


class UnpreparedClaims(Message, frozen=True):
    claims: Annotated[list[UnpreparedOf], 1] = []


# HealthStatus
HEALTHY, UNHEALTHY = 1, 2


class DeviceIdentifier(Message, frozen=True):
    pool_name: Annotated[str, 1] = ""
    device_name: Annotated[str, 2] = ""


class DeviceHealth(Message, frozen=True):
    device: Annotated[DeviceIdentifier, 1] = DeviceIdentifier()
    health: Annotated[int, 2] = 0
    last_updated_time: Annotated[int, 3] = 0
    health_check_timeout_seconds: Annotated[int, 4] = 0
    message: Annotated[str, 5] = ""


class DevicesHealth(Message, frozen=True):
    devices: Annotated[list[DeviceHealth], 1] = []


WATCH_HEALTH: Final = Method("/v1alpha1.DRAResourceHealth/NodeWatchResources", Nothing, DevicesHealth)

#: What a driver can be spoken to in, as it says at its registration, and the name of that service.
SERVICES: Final = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}


def prepare(service: str) -> Method[Claims, PreparedClaims]:
    return Method(f"/{SERVICES[service]}/NodePrepareResources", Claims, PreparedClaims)


def unprepare(service: str) -> Method[Claims, UnpreparedClaims]:
    return Method(f"/{SERVICES[service]}/NodeUnprepareResources", Claims, UnpreparedClaims)
