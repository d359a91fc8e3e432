"""Devices as CDI describes them: what a container gets with one, written down in files by whoever made it ready.

Where a runtime behind CRI does this itself, this runtime does it here. Source: the Container Device Interface
specification (1.1.0), tags.cncf.io/container-device-interface.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.oci import devices
from fairlead.api.objects import Obj
from fairlead.golang import yaml as goyaml

#: What the second tells of a device counts for more.
FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
_KINDS: Final = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))

log = logging.getLogger(__name__)


class _Mount(msgspec.Struct, rename="camel"):
    host_path: str = ""
    container_path: str = ""
    options: list[str] = []
    type: str = ""


class _Node(msgspec.Struct, rename="camel"):
    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = "rwm"
    uid: int | None = None
    gid: int | None = None


class _Hook(msgspec.Struct, rename="camel", omit_defaults=True):
    hook_name: str
    path: str
    args: list[str] = []
    env: list[str] = []
    timeout: int | None = None


class _Edits(msgspec.Struct, rename="camel"):
    env: list[str] = []
    device_nodes: list[_Node] = []
    mounts: list[_Mount] = []
    hooks: list[_Hook] = []
    additional_gids: list[int] = msgspec.field(default_factory=list, name="additionalGids")


class _Device(msgspec.Struct, rename="camel"):
    name: str
    container_edits: _Edits = msgspec.field(default_factory=_Edits)


class _Spec(msgspec.Struct, rename="camel"):
    kind: str
    devices: list[_Device] = []
    container_edits: _Edits = msgspec.field(default_factory=_Edits)


def inject(config: Obj, names: Sequence[str], folders: Sequence[Path] = FOLDERS) -> None:
    """Change the config.json of a container so that it has these. RuntimeFailure for one that nobody describes."""
    known = _known(folders)
    if missing := [name for name in names if known.get(name) is None]:
        raise RuntimeFailure(f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}")
    applied: list[_Spec] = []
    for name in names:
        found = known[name]
        assert found is not None
        spec, device = found
        if all(spec is not other for other in applied):
            applied.append(spec)
            _edit(config, spec.container_edits)
        _edit(config, device.container_edits)


def _known(folders: Sequence[Path]) -> dict[str, tuple[_Spec, _Device] | None]:
    """By full name; None for one that two files of a folder describe."""
    known: dict[str, tuple[_Spec, _Device] | None] = {}
    for folder in folders:
        here: dict[str, tuple[_Spec, _Device] | None] = {}
        for spec in _specs(folder):
            for device in spec.devices:
                name = f"{spec.kind}={device.name}"
                here[name] = None if name in here else (spec, device)
        known |= here
    return known


def _specs(folder: Path) -> Iterator[_Spec]:
    for path in sorted(folder.glob("*")):
        if path.suffix not in (".json", ".yaml"):
            continue
        try:
            content = path.read_bytes()
            parsed = msgspec.json.decode(content) if path.suffix == ".json" else goyaml.parse(content)[0]
            yield msgspec.convert(parsed, _Spec)
        except (OSError, ValueError) as problem:  # that of others is none of ours
            log.warning("CDI specification %s is passed over: %s", path, problem)


def _edit(config: Obj, edits: _Edits) -> None:
    process = config["process"]
    for variable in edits.env:
        name = f"{variable.partition('=')[0]}="
        process["env"] = [*(known for known in process["env"] if not known.startswith(name)), variable]
    devices.add(config, [(_made(process["user"], node), node.permissions) for node in edits.device_nodes])
    for mount in edits.mounts:
        config["mounts"] = [
            *(known for known in config["mounts"] if known["destination"] != mount.container_path),
            {
                "destination": mount.container_path,
                "source": mount.host_path,
                "type": mount.type or "bind",
                "options": mount.options or ["rbind"],
            },
        ]
    for hook in edits.hooks:
        found = {name: value for name, value in msgspec.to_builtins(hook).items() if name != "hookName"}
        config.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(found)
    process["user"]["additionalGids"] = sorted({*process["user"]["additionalGids"], *edits.additional_gids} - {0})


def _made(user: Obj, node: _Node) -> Obj:
    """A device node in a container that runs as that user."""
    kind, major, minor = node.type, node.major, node.minor
    if not kind or (not major and kind != "p"):
        kind, major, minor = _of_machine(node.host_path or node.path)
    made: Obj = {"path": node.path, "type": kind, "major": major, "minor": minor}
    uid = node.uid if node.uid is not None else user["uid"] or None
    gid = node.gid if node.gid is not None else user["gid"] or None
    return made | {
        name: value for name, value in (("fileMode", node.file_mode), ("uid", uid), ("gid", gid)) if value is not None
    }


def _of_machine(path: str) -> tuple[str, int, int]:
    try:
        found = Path(path).stat()
    except OSError as problem:
        raise RuntimeFailure(f"CDI device injection failed: failed to stat CDI host device {path}: {problem}") from None
    kind = next((letter for is_so, letter in _KINDS if is_so(found.st_mode)), "")
    if not kind:
        raise RuntimeFailure(f"CDI device injection failed: {path} is not a device node")
    return kind, os.major(found.st_rdev), os.minor(found.st_rdev)
