"""What a node agent reads of its configuration when it starts, after the configuration was found valid.

Amounts, percentages and thresholds are texts until then, so this is where a mistyped one stops it.
Source: cmd/kubelet/app/server.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.golang.quoting import go_quote
from fairlead.node.cgroups.names import CgroupDriver
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.eviction.settings import EvictionSettings, eviction_settings
from fairlead.node.eviction.thresholds import Threshold, parse_thresholds
from fairlead.node.log_rotation import LogPolicy
from fairlead.node.reservations import Reservations, parse_qos_reserved, read_flag, reservations_of


class StartSettings(msgspec.Struct, frozen=True):
    reservations: Reservations
    #: Those that lower what the node has to give: a soft threshold without a grace period does not.
    hard_thresholds: tuple[Threshold, ...]
    #: What part of their requests higher classes have reserved, by resource; it takes the feature QOSReserved.
    qos_reserved_percent: Mapping[str, int]
    eviction: EvictionSettings
    cgroup_driver: CgroupDriver
    logs: LogPolicy


def start_settings(config: KubeletConfiguration, cpus: int) -> StartSettings:
    """On a machine of so many CPUs; StartupError for the first text that cannot be read."""
    try:
        reservations = reservations_of(config, cpus)
        counted = {} if config.allocatable_ignores_eviction else config.eviction_hard
        hard = parse_thresholds(counted, {}, {}, {}, enforces_pods=False)
        percent = read_flag("--qos-reserved", parse_qos_reserved, config.qos_reserved)
        eviction = eviction_settings(config)
        driver = _cgroup_driver(config.cgroup_driver)
        logs = LogPolicy.of(config)
    except ValueError as problem:
        raise StartupError(Stage.START, str(problem)) from None
    return StartSettings(reservations, hard, percent, eviction, driver, logs)


def _cgroup_driver(text: str) -> CgroupDriver:
    """A kubelet takes every other word for cgroupfs; here a mistyped one is told of."""
    if text not in set(CgroupDriver):
        listed = " or ".join(go_quote(driver) for driver in CgroupDriver)
        raise ValueError(f"cgroupDriver (--cgroup-driver) {go_quote(text)} must be {listed}")
    return CgroupDriver(text)
