"""A virtual machine with cgroup v2 alone: it sees the files of this one, writes none of them, and runs one command.

    qemu (KVM where it works) ─▶ Debian's kernel ─▶ init: modules, this machine's root under an overlay ─▶ the command

What a machine with cgroup v1 cannot show is tested in there, and what nobody may do to the machine that runs tests.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

#: Where `.ci/vm-kernel` has unpacked a kernel.
KERNEL_VARIABLE: Final = "FAIRLEAD_VM_KERNEL"
#: What it takes to see the files; they bring along what they need. A kernel may have some built in.
_MODULES: Final = ("virtio_pci", "virtiofs", "overlay")
_QEMU: Final = (
    *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
    *("-serial", "stdio", "-no-reboot"),
)
_CPU: Final = ("-cpu", "max,arch-capabilities=off")  # which not every machine lets its guests set
_PARAMETERS: Final = "console=ttyS0 panic=-1 mitigations=off random.trust_cpu=on transparent_hugepage=never"
#: How long a kernel that works takes at most to find out that it has nothing to begin with.
_KVM_SECONDS: Final = 10.0
_VIRTIOFSD: Final = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
_TAG: Final = "host"
_ENDED: Final = "the command in the virtual machine ended with"
#: What is written in there is gone with it. /run is no overlay, so that containers can have their layers there. The new
#: root takes the place of the old one: whoever enters a container's mounts would otherwise come out in the old one.
_INIT: Final = """#!/bin/busybox sh
export PATH=/bin
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mkdir -p /host /upper /new
mount -t virtiofs -o ro {tag} /host
mount -t tmpfs -o size=64m upper /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work overlay /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs -o mode=1777 shm /new/dev/shm
mount -t tmpfs -o size=80% run /new/run
ifconfig lo 127.0.0.1
hostname machine
echo 3 > /new/proc/sys/kernel/printk
exec switch_root /new /bin/sh -c {command}
"""


class NoEnd(AssertionError):
    """The machine did not come to an end; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    output: str


@lru_cache
def missing() -> str:
    """Why there can be no such machine here; empty if there can."""
    if os.geteuid() != 0:
        return "it takes root"
    if platform.machine() != "x86_64":
        return f"there is no kernel for {platform.machine()} yet"
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    if _virtiofsd() is None:
        return "virtiofsd is missing: apt-get install virtiofsd"
    if not _kernels():
        return f"{KERNEL_VARIABLE} names no kernel: .ci/vm-kernel FOLDER unpacks one"
    return ""


def run_inside(
    command: Sequence[str], folder: Path, *, memory_mib: int, cpus: int, seconds: float, env: Mapping[str, str]
) -> Ended:
    """Run it in a machine of that size, from the current folder; what it says is its output."""
    setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    where = shlex.quote(str(Path.cwd()))
    script = f'cd {where}; env {setting} {shlex.join(command)} 2>&1; echo "{_ENDED} $?"; busybox reboot -f'
    initrd, console = _initrd(folder, script), folder / "console.log"
    with _shared_root(folder) as socket, console.open("wb") as said:
        qemu = [
            *_QEMU,
            *("-machine", f"q35,accel={_accelerator()}", *_CPU, "-smp", str(cpus), "-m", f"{memory_mib}M"),
            *("-object", f"memory-backend-memfd,id=memory,size={memory_mib}M,share=on", "-numa", "node,memdev=memory"),
            *("-chardev", f"socket,id=files,path={socket}", "-device", f"vhost-user-fs-pci,chardev=files,tag={_TAG}"),
            *("-kernel", str(_kernels()[-1]), "-initrd", str(initrd), "-append", f"{_PARAMETERS} quiet"),
        ]
        process = subprocess.Popen(qemu, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NoEnd(f"not ended after {seconds:g} s:\n{_text(console)}") from None
        finally:
            process.kill()
            process.wait()
    output = _text(console)
    found = re.search(rf"{_ENDED} (\d+)", output)
    if found is None:
        raise NoEnd(output)
    return Ended(int(found[1]), output[: found.start()])


def _text(console: Path) -> str:
    return console.read_text(errors="replace").replace("\r", "")


@lru_cache
def _accelerator() -> str:
    """KVM where a kernel comes to its end under it: some machines offer it, and then nothing happens."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    command = [*_QEMU, "-machine", "q35,accel=kvm", *_CPU, "-m", "256M"]
    command += ["-kernel", str(_kernels()[-1]), "-append", _PARAMETERS]
    try:
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_KVM_SECONDS)
    except subprocess.TimeoutExpired:
        return "tcg"
    return "kvm" if tried.returncode == 0 else "tcg"


def _kernels() -> list[Path]:
    folder = os.environ.get(KERNEL_VARIABLE)
    return sorted(Path(folder).glob("boot/vmlinuz-*")) if folder else []


def _virtiofsd() -> str | None:
    return next((program for program in _VIRTIOFSD if os.access(program, os.X_OK)), None)


@contextmanager
def _shared_root(folder: Path) -> Iterator[Path]:
    """The root of this machine while the block runs, for whoever speaks to the socket."""
    socket, said = folder / "files.sock", folder / "virtiofsd.log"
    command = [_virtiofsd() or "", f"--socket-path={socket}", "-o", "source=/", "-o", "cache=always"]
    with said.open("wb") as log:
        process = subprocess.Popen([*command, "-o", "sandbox=chroot"], stdout=log, stderr=log)
        try:
            while not socket.exists():
                if process.poll() is not None:
                    raise NoEnd(said.read_text())
                time.sleep(0.01)
            yield socket
        finally:
            process.terminate()
            process.wait(10)


def _initrd(folder: Path, script: str) -> Path:
    """What the kernel begins with: busybox, modules and an init."""
    tree = folder / "initrd"
    for name in ("bin", "dev", "proc", "modules"):
        (tree / name).mkdir(parents=True)
    busybox = shutil.which("busybox") or ""
    shutil.copy2(busybox, tree / "bin/busybox")
    for name in ("sh", "mount", "mkdir", "insmod", "switch_root", "ifconfig", "hostname"):
        (tree / "bin" / name).symlink_to("busybox")
    kernel = _kernels()[-1]
    modules = kernel.parents[1] / "lib/modules" / kernel.name.removeprefix("vmlinuz-")
    for number, module in enumerate(_with_needs(modules, _MODULES)):
        shutil.copy2(module, tree / "modules" / f"{number:02}-{module.name}")
    init = tree / "init"
    init.write_text(_INIT.format(tag=_TAG, command=shlex.quote(script)))
    init.chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    pack = [busybox, "cpio", "-o", "-H", "newc"]
    packed = subprocess.run(pack, input=names.encode(), cwd=tree, capture_output=True, check=True)
    initrd = folder / "initrd.gz"
    initrd.write_bytes(gzip.compress(packed.stdout, 1))
    return initrd


def _with_needs(folder: Path, names: Sequence[str]) -> list[Path]:
    """The files of modules, each after those that it needs."""
    every, found = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}, list[Path]()

    def add(name: str) -> None:
        path = every.get(name)
        if path is None or path in found:
            return
        said = re.search(rb"\0depends=([^\0]*)", path.read_bytes())
        for need in said[1].decode().split(",") if said else ():
            add(need.replace("-", "_"))
        found.append(path)

    for name in names:
        add(name)
    return found
