"""The file systems of a node: that of pods, and that of images where it is another."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.agent.measuring.disks import device_name
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.stats.measurements import FilesystemMeasurements


def file_system(path: Path) -> FilesystemMeasurements:
    """The one that a path is on."""
    found, number = os.statvfs(path), path.stat().st_dev
    return FilesystemMeasurements(
        capacity=found.f_blocks * found.f_frsize,
        available=found.f_bavail * found.f_frsize,
        used=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
        inodes_used=found.f_files - found.f_ffree,
        device=device_name(f"{os.major(number)}:{os.minor(number)}"),
    )


def part_of(whole: FilesystemMeasurements, usage: DiskUsage) -> FilesystemMeasurements:
    """What somebody takes of it."""
    return FilesystemMeasurements(
        capacity=whole.capacity,
        available=whole.available,
        used=usage.used or 0,
        inodes=whole.inodes,
        inodes_free=whole.inodes_free,
        inodes_used=usage.inodes,
        device=whole.device,
    )


def layout(root: Path, images: Path) -> FileSystems:
    """Layers that containers write to lie with the pods; images may lie elsewhere."""
    is_apart = images.exists() and images.stat().st_dev != root.stat().st_dev
    return FileSystems.SPLIT if is_apart else FileSystems.SHARED
