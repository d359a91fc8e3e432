"""When the log of a container is rotated, and how much is kept of it. Source: pkg/kubelet/logs (1.36)."""

from __future__ import annotations

import msgspec

from fairlead.api import quantity
from fairlead.node.configuration.settings import KubeletConfiguration


class LogPolicy(msgspec.Struct, frozen=True, kw_only=True):
    #: From how many bytes on a log is rotated; negative: never.
    max_bytes: int
    #: With the one that is written to.
    max_files: int
    interval_seconds: float
    workers: int

    @classmethod
    def of(cls, config: KubeletConfiguration) -> LogPolicy:
        """ValueError for a size that is none."""
        size = config.container_log_max_size
        try:
            max_bytes = quantity.parse(size)
            if not max_bytes.is_small or max_bytes.nanos % 10**9:  # Go's AsInt64, which has none of 1.5Gi either
                raise ValueError("invalid max log size")
        except ValueError as error:
            raise ValueError(f'failed to parse container log max size "{size}": {error}') from None
        return cls(
            max_bytes=max_bytes.units,
            max_files=config.container_log_max_files,
            interval_seconds=config.container_log_monitor_interval,
            workers=config.container_log_max_workers,
        )

    @property
    def most_packed(self) -> int:
        """Of the files that are kept, the one that is written to and the last that was rotated are not packed."""
        return max(self.max_files - 2, 0)
