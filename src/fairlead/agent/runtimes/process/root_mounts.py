"""The root file system of a container, mounted in a namespace of its own.

An image may come from anybody, and its symlinks may say anything. The kernel would follow them out: while mounts are
made, the old root still lies over the new one, where `..` leads, and /proc/self/cwd is in it. So targets are resolved
here, by name alone, before the kernel sees them. What the machine gives is reached from the old root, by paths that
begin in the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.runtimes import overlay
from fairlead.agent.runtimes.process.bundle import Bind, Bundle

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_NO_PROGRAMS: Final = linux.MS_NOSUID | linux.MS_NOEXEC | linux.MS_NODEV


def enter_root(bundle: Bundle) -> None:
    """Make the container's root that of this process; OSError for what the kernel refuses."""
    linux.mount("", Path("/"), flags=linux.MS_SLAVE | linux.MS_REC)
    old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    root = Path(bundle["rootfs"])
    _mount_root(bundle, root)
    os.chdir(root)
    linux.pivot_here()
    os.fchdir(old)  # from here on sources are relative, and targets absolute
    _mount_system(bundle)
    for bind in bundle["binds"]:
        _bind(bind)
    os.fchdir(old)
    linux.unmount(Path())
    os.chdir("/")
    os.close(old)
    if bundle["has_read_only_root"]:
        linux.make_read_only(Path("/"))


def overlay_options(layers: list[str], upper: str, work: str) -> str:
    """From a folder that all layers are below; what marks removed files is what a user without root may write."""
    return f"{overlay.options(layers, upper, work)},userxattr"


def _mount_root(bundle: Bundle, root: Path) -> None:
    if not bundle["has_overlay"]:
        linux.mount(bundle["upper"], root, flags=linux.MS_BIND)
        return
    layers = bundle["layers"]
    base = os.path.commonpath([str(Path(layer).parent) for layer in layers])
    os.chdir(base)
    names = [os.path.relpath(layer, base) for layer in layers]
    linux.mount("overlay", root, "overlay", data=overlay_options(names, bundle["upper"], bundle["work"]))


def _mount_system(bundle: Bundle) -> None:
    if bundle["pid"] or bundle["has_own_processes"]:
        linux.mount("proc", _folder("/proc"), "proc", _NO_PROGRAMS)
    else:
        _bind_within("proc", "/proc")
    linux.make_read_only(_bind_within("sys", "/sys"), is_recursive=True)
    dev = _folder("/dev")
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID, "mode=755,size=65536k")
    for name in _DEVICES:
        _bind_within(f"dev/{name}", f"/dev/{name}")
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    options = "newinstance,ptmxmode=0666,mode=0620"
    linux.mount("devpts", _folder("/dev/pts"), "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    _bind_within(bundle["shm"].lstrip("/"), "/dev/shm")
    if bundle["ipc"]:  # the queues of the machine are not this user's to mount
        linux.mount("mqueue", _folder("/dev/mqueue"), "mqueue", _NO_PROGRAMS)


def _bind(bind: Bind) -> None:
    target = _bind_within(bind["source"].lstrip("/"), bind["target"])
    linux.mount("", target, flags=(linux.MS_SLAVE if bind["is_slave"] else linux.MS_PRIVATE) | linux.MS_REC)
    if bind["is_read_only"] or bind["is_read_only_below"]:
        linux.make_read_only(target, is_recursive=bind["is_read_only_below"])


def _bind_within(source: str, target: str) -> Path:
    """Mount it over a file, or over a folder with all that is mounted below it; the target is made if it is missing.
    Returns where that is."""
    if Path(source).is_dir():
        place = _folder(target)
    elif not (place := _within(target)).exists():
        _folder(str(place.parent))
        place.touch()
    linux.mount(source, place, flags=linux.MS_BIND | linux.MS_REC)
    return place


def _folder(path: str) -> Path:
    place = _within(path)
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    return place


def _within(path: str) -> Path:
    """Where a path of the container leads, without symlinks and `..`: it never leads out."""
    return Path(os.path.realpath(Path("/", path)))
