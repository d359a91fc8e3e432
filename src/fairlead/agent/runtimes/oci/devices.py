"""The devices of this machine: a privileged container sees all of them in its own /dev, others those that are given."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import MachineDevice, RuntimeFailure
from fairlead.api.objects import Obj

#: Folders of /dev that a container has itself, and its terminal.
_OWN: Final = frozenset({"pts", "shm", "fd", "mqueue", "console"})


def machine_devices(folder: str = "/dev") -> list[Obj]:
    return list(_below(folder))


def give(config: Obj, devices: Iterable[MachineDevice]) -> None:
    """Change the config.json of a container so that it has these. RuntimeFailure for what is no device."""
    add(config, ((found, device.access) for device in devices for found in _named(device)))


def add(config: Obj, nodes: Iterable[tuple[Obj, str]]) -> None:
    """Nodes of devices, as a config has them, and the right to use each; they take the place of what was there."""
    linux = config["linux"]
    by_path = {known["path"]: known for known in linux.get("devices") or ()}
    for node, access in nodes:
        by_path.pop(node["path"], None)
        by_path[node["path"]] = node
        if node["type"] in ("b", "c"):
            rule = {"allow": True, **{name: node[name] for name in ("type", "major", "minor")}, "access": access}
            linux["resources"]["devices"].append(rule)
    if by_path:
        linux["devices"] = list(by_path.values())


def _named(device: MachineDevice) -> list[Obj]:
    """All that are in a folder; where a link leads."""
    source = os.path.realpath(device.source)
    try:
        found = Path(source).stat()
    except OSError as problem:
        raise RuntimeFailure(f"failed to stat device {device.source}: {problem.strerror}") from None
    if stat.S_ISDIR(found.st_mode):
        inside = machine_devices(source)
        return [{**each, "path": device.target + each["path"].removeprefix(source)} for each in inside]
    if (kind := _kind(found)) is None:
        raise RuntimeFailure(f"{device.source} is not a device node")
    return [_node(device.target or device.source, kind, found)]


def _below(folder: str) -> Iterator[Obj]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in _OWN:
                continue
            with suppress(OSError):  # it may have gone
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path)
                elif (kind := _kind(found := entry.stat(follow_symlinks=False))) is not None:
                    yield _node(entry.path, kind, found)


def _node(path: str, kind: str, found: os.stat_result) -> Obj:
    return {
        "path": path,
        "type": kind,
        "major": os.major(found.st_rdev),
        "minor": os.minor(found.st_rdev),
        "fileMode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
    }


def _kind(found: os.stat_result) -> str | None:
    if stat.S_ISBLK(found.st_mode):
        return "b"
    return "c" if stat.S_ISCHR(found.st_mode) else None
