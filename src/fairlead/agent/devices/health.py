"""How the devices of this node are, as their drivers tell: shown in the status of the containers that have them.

Source: pkg/kubelet/cm/dra/healthinfo.go and manager.go (1.36, ResourceHealthStatus and ResourceHealthStatusMessage).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from fairlead.agent.devices.messages import HEALTHY, UNHEALTHY, DeviceHealth
from fairlead.api.devices import DeviceId
from fairlead.api.objects import Obj
from fairlead.runtime.clock import now
from fairlead.runtime.turns import in_turns

#: For so long what was told of a device is believed, unless its driver says otherwise.
_BELIEVED_SECONDS: Final = 30.0
_LONGEST_MESSAGE: Final = 1024
#: So many that a driver does not name any more are believed at most: it may call its devices otherwise each time.
_MOST_LEFT_OUT: Final = 10_000
_WORDS: Final = {HEALTHY: "Healthy", UNHEALTHY: "Unhealthy"}
_UNKNOWN: Final = "Unknown"


class _Told(NamedTuple):
    health: str
    message: str
    until: float


class DeviceHealths:
    def __init__(self) -> None:
        self._told: dict[DeviceId, _Told] = {}
        self._subscribers: list[Callable[[Collection[DeviceId]], None]] = []

    def subscribe(self, changed: Callable[[Collection[DeviceId]], None]) -> None:
        self._subscribers.append(changed)

    async def told(self, driver: str, devices: Sequence[DeviceHealth]) -> None:
        """All of a driver's devices, as it says; whom it leaves out is believed for some time yet."""
        changed, named = set[DeviceId](), set[DeviceId]()
        async for each in in_turns(devices):
            id_ = driver, each.device.pool_name, each.device.device_name
            before = self.of(id_)
            seconds = each.health_check_timeout_seconds
            until = each.last_updated_time + (seconds if seconds > 0 else _BELIEVED_SECONDS)
            self._told[id_] = _Told(_WORDS.get(each.health, _UNKNOWN), _cut(each.message), until)
            named.add(id_)
            if self.of(id_) != before:
                changed.add(id_)
        left_out = [id_ for id_ in self._told if id_[0] == driver and id_ not in named]
        for id_ in left_out:
            if self._is_outdated(self._told[id_]) or len(left_out) > _MOST_LEFT_OUT:
                del self._told[id_]
        self._tell(changed)

    def forget(self, driver: str) -> None:
        """Nobody tells any more."""
        gone = {id_ for id_ in self._told if id_[0] == driver}
        for id_ in gone:
            del self._told[id_]
        self._tell(gone)

    def of(self, id_: DeviceId) -> Obj:
        """As the status of a container shows it."""
        told = self._told.get(id_)
        if told is None or self._is_outdated(told):
            return {"health": _UNKNOWN}
        return {"health": told.health} | ({"message": told.message} if told.message else {})

    @staticmethod
    def _is_outdated(told: _Told) -> bool:
        return now() > told.until

    def _tell(self, changed: Collection[DeviceId]) -> None:
        if changed:
            for subscriber in self._subscribers:
                subscriber(changed)


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return message
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
