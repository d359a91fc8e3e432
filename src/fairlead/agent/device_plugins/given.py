"""What a container gets with all of its devices; of what two plugins say of one thing the first counts.

Source: deviceRunContainerOptions of pkg/kubelet/cm/devicemanager/pod_devices.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairlead.agent.device_plugins.holdings import Holding
from fairlead.agent.runtimes.base import MachineDevice, Mount


class DevicesGiven(NamedTuple):
    env: Mapping[str, str] = {}
    mounts: Sequence[Mount] = ()
    devices: Sequence[MachineDevice] = ()
    annotations: Mapping[str, str] = {}
    cdi: Sequence[str] = ()


def given(holdings: Iterable[Holding]) -> DevicesGiven:
    env, annotations = dict[str, str](), dict[str, str]()
    mounts, devices, cdi = dict[str, Mount](), dict[str, MachineDevice](), dict[str, None]()
    for got in (holding.given for holding in holdings):
        env = {**got.envs, **env}
        annotations = {**got.annotations, **annotations}
        for mount in got.mounts:
            found = Mount(Path(mount.host_path), mount.container_path, read_only=mount.read_only)
            mounts.setdefault(mount.container_path, found)
        for device in got.devices:
            made = MachineDevice(device.host_path, device.container_path, device.permissions)
            devices.setdefault(device.container_path, made)
        cdi |= dict.fromkeys(device.name for device in got.cdi_devices)
    return DevicesGiven(env, list(mounts.values()), list(devices.values()), annotations, list(cdi))
