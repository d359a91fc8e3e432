"""The config.json of a container's bundle, as the OCI runtime specification has it.

What Kubernetes leaves to the runtime (default capabilities, masked paths, devices) is as in containerd, so that an
image finds what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.agent.runtimes.base import ContainerSpec, Mount, RuntimeFailure, Security
from fairlead.agent.runtimes.oci.layout import ContainerFiles, SandboxFiles
from fairlead.agent.runtimes.oci.seccomp import runtime_default
from fairlead.agent.runtimes.oci.users import ImageUser, image_user
from fairlead.agent.runtimes.proc_paths import MASKED, READ_ONLY
from fairlead.api.objects import Obj
from fairlead.node.cgroups.containers import ContainerValues

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Namespaces of the sandbox, by the name that a config has for them.
PINNED: Final[Mapping[str, str]] = {"net": "network", "ipc": "ipc", "uts": "uts"}
_DEFAULT_CAPABILITIES: Final = """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID
    SYS_CHROOT
"""
_FURTHER_CAPABILITIES: Final = """
    AUDIT_CONTROL AUDIT_READ BLOCK_SUSPEND BPF CHECKPOINT_RESTORE DAC_READ_SEARCH IPC_LOCK IPC_OWNER LEASE
    LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE NET_ADMIN NET_BROADCAST PERFMON SYSLOG SYS_ADMIN SYS_BOOT SYS_MODULE SYS_NICE
    SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM
"""


def config_of(
    spec: ContainerSpec, files: ContainerFiles, sandbox: SandboxFiles, cgroup: str, least_oom_score_adj: int
) -> Obj:
    """RuntimeFailure for what the image or the specification does not allow."""
    user = image_user(spec.layers, spec.security.user)
    if spec.security.must_not_be_root and user.uid == 0:
        raise RuntimeFailure("container has runAsNonRoot and image will run as root")
    return {
        "ociVersion": "1.0.2",
        "process": _process(spec, user, least_oom_score_adj),
        "root": {"path": str(files.rootfs), "readonly": spec.security.has_read_only_root},
        "mounts": [*_system_mounts(sandbox), *(_bind(mount) for mount in spec.mounts), *_last_words(spec, files)],
        "linux": {
            "namespaces": list(_namespaces(spec, sandbox)),
            "cgroupsPath": cgroup,
            "resources": resources_of(spec.resources),
            **({"seccomp": runtime_default()} if spec.security.is_seccomp_confined else {}),
            **({"maskedPaths": MASKED, "readonlyPaths": READ_ONLY} if spec.security.is_proc_masked else {}),
        },
    }


def resources_of(values: ContainerValues) -> Obj:
    cpu = {"shares": values.cpu_shares, "quota": values.cpu_quota, "period": values.cpu_period}
    memory = {"limit": values.memory_limit, "swap": values.memory_swap_limit}
    found: Obj = {
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {name: value for name, value in cpu.items() if value},
        "memory": {name: value for name, value in memory.items() if value},
    }
    if values.unified:
        found["unified"] = dict(values.unified)
    return found


def capabilities(security: Security) -> list[str]:
    """What is added wins over what is dropped, unless all is dropped first."""
    added, dropped = _named(security.added_capabilities), _named(security.dropped_capabilities)
    default = _named(_DEFAULT_CAPABILITIES.split())
    known = default | _named(_FURTHER_CAPABILITIES.split())
    held = set() if "CAP_ALL" in dropped else default - dropped
    held = known - dropped if "CAP_ALL" in added else held | added
    if unknown := sorted(held - known):
        raise RuntimeFailure(f"unknown capability {unknown[0]}")
    return sorted(held)


def _named(names: Iterable[str]) -> set[str]:
    return {name if name.startswith("CAP_") else f"CAP_{name}" for name in map(str.upper, names)}


def _process(spec: ContainerSpec, user: ImageUser, least_oom_score_adj: int) -> Obj:
    held, security = capabilities(spec.security), spec.security
    of_user = held if user.uid == 0 else []
    groups = sorted({*user.groups, *security.groups})
    env = {"PATH": DEFAULT_PATH, **({"TERM": "xterm"} if spec.has_tty else {}), "HOME": user.home, **spec.env}
    return {
        "terminal": spec.has_tty,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": groups},
        "args": list(spec.argv),
        "env": [f"{name}={value}" for name, value in env.items()],
        "cwd": spec.working_dir,
        "capabilities": {"bounding": held, "permitted": of_user, "effective": of_user},
        "noNewPrivileges": security.has_no_new_privileges,
        "oomScoreAdj": max(spec.resources.oom_score_adj, least_oom_score_adj),
    }


def _namespaces(spec: ContainerSpec, sandbox: SandboxFiles) -> Iterable[Obj]:
    yield {"type": "mount"}
    yield {"type": "cgroup"}
    if not spec.host_pid:
        yield {"type": "pid"}
    for name, kind in PINNED.items():
        if (pin := sandbox.pin(name)).exists():
            yield {"type": kind, "path": str(pin)}


def _system_mounts(sandbox: SandboxFiles) -> Iterable[Obj]:
    yield _system("/proc", "proc", "nosuid,noexec,nodev")
    yield _system("/dev", "tmpfs", "nosuid,strictatime,mode=755,size=65536k")
    yield _system("/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5")
    yield _system("/dev/mqueue", "mqueue", "nosuid,noexec,nodev")
    yield _system("/sys", "sysfs", "nosuid,noexec,nodev,ro")
    yield _system("/sys/fs/cgroup", "cgroup", "nosuid,noexec,nodev,relatime,ro")
    yield _bind(Mount(sandbox.shm, "/dev/shm"))


def _system(target: str, kind: str, options: str) -> Obj:
    return {"destination": target, "type": kind, "source": kind, "options": options.split(",")}


def _bind(mount: Mount) -> Obj:
    options = ["rbind", mount.propagation, "ro" if mount.read_only else "rw"]
    return {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options}


def _last_words(spec: ContainerSpec, files: ContainerFiles) -> Iterable[Obj]:
    if spec.termination_message_path:
        yield _bind(Mount(files.last_words, spec.termination_message_path))
