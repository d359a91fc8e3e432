"""The config.json of a container's bundle, as the OCI runtime specification has it.

What Kubernetes leaves to the runtime (default capabilities, masked paths, devices) is as in containerd, so that an
image finds what it knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.base import (
    SHARED,
    SLAVE,
    AppArmorProfile,
    ContainerSpec,
    IdRange,
    Mount,
    RunsAs,
    RuntimeFailure,
    Security,
)
from fairlead.agent.runtimes.oci import user_namespace
from fairlead.agent.runtimes.oci.capabilities import capabilities
from fairlead.agent.runtimes.oci.devices import machine_devices
from fairlead.agent.runtimes.oci.layout import ContainerFiles, SandboxFiles
from fairlead.agent.runtimes.oci.seccomp import runtime_default
from fairlead.agent.runtimes.oci.users import ImageUser, image_user
from fairlead.agent.runtimes.proc_paths import MASKED, READ_ONLY
from fairlead.api.objects import Obj
from fairlead.node.cgroups.containers import ContainerValues

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RESTRICTIONS: Final = {
    os.ST_NOSUID: "nosuid",
    os.ST_NODEV: "nodev",
    os.ST_NOEXEC: "noexec",
    os.ST_NOATIME: "noatime",
    os.ST_NODIRATIME: "nodiratime",
}
#: Namespaces of the sandbox, by the name that a config has for them.
PINNED: Final[Mapping[str, str]] = {"user": "user", "net": "network", "ipc": "ipc", "uts": "uts"}


def config_of(
    spec: ContainerSpec,
    files: ContainerFiles,
    sandbox: SandboxFiles,
    cgroup: str,
    least_oom_score_adj: int,
    processes: Path | None = None,
) -> Obj:
    """RuntimeFailure for what the image or the specification does not allow; `processes` is a namespace to join."""
    user = user_of(spec)
    is_privileged = spec.security.is_privileged
    masks = {"maskedPaths": MASKED, "readonlyPaths": READ_ONLY}
    return {
        "ociVersion": "1.0.2",
        "process": _process(spec, user, least_oom_score_adj),
        "root": {"path": str(root_of(spec, files)), "readonly": spec.security.has_read_only_root},
        "mounts": [
            *_system_mounts(sandbox, "rw" if is_privileged else "ro"),
            *(_bind(mount, () if spec.users is None else _lasting(mount.source)) for mount in spec.mounts),
            *_last_words(spec, files),
        ],
        "linux": {
            "namespaces": list(_namespaces(spec, sandbox, processes)),
            **_mappings(spec.users),
            "cgroupsPath": cgroup,
            "resources": resources_of(spec.resources, has_devices=is_privileged),
            **({"devices": machine_devices()} if is_privileged else {}),
            **_propagation(spec.mounts),
            **_seccomp(spec.security),
            **(masks if spec.security.is_proc_masked and not is_privileged else {}),
        },
        **({"annotations": dict(spec.annotations)} if spec.annotations else {}),
    }


def root_of(spec: ContainerSpec, files: ContainerFiles) -> Path:
    """Where its keeper mounts its root."""
    return files.rootfs if spec.users is None else user_namespace.root_of(files.folder)


def user_of(spec: ContainerSpec) -> ImageUser:
    """Who it runs as; RuntimeFailure if that may not be."""
    user = image_user(spec.layers, spec.security.user)
    if spec.security.must_not_be_root and user.uid == 0:
        raise RuntimeFailure("container has runAsNonRoot and image will run as root")
    return user


def groups_of(security: Security, user: ImageUser) -> list[int]:
    """Besides its first one."""
    return sorted({*(() if security.has_no_image_groups else user.groups), *security.groups})


def runs_as(spec: ContainerSpec) -> RunsAs:
    user = user_of(spec)
    others = (group for group in groups_of(spec.security, user) if group != user.gid)
    return RunsAs(user.uid, user.gid, (user.gid, *others))


def variables_of(spec: ContainerSpec, user: ImageUser) -> dict[str, str]:
    """With what every program expects."""
    return {"PATH": DEFAULT_PATH, **({"TERM": "xterm"} if spec.has_tty else {}), "HOME": user.home, **spec.env}


def _propagation(mounts: Iterable[Mount]) -> Obj:
    """What comes from outside reaches a mount only if it reaches the root, which crun keeps to itself else."""
    found = {mount.propagation for mount in mounts}
    widest = next((each for each in (SHARED, SLAVE) if each in found), "")
    return {"rootfsPropagation": widest} if widest else {}


def _seccomp(security: Security) -> Obj:
    """A privileged container has none, whatever it says."""
    if security.is_privileged:
        return {}
    if security.seccomp is not None:
        return {"seccomp": msgspec.json.decode(security.seccomp.read_bytes())}
    return {"seccomp": runtime_default()} if security.is_seccomp_confined else {}


def resources_of(values: ContainerValues, *, has_devices: bool = False) -> Obj:
    cpu = {
        "shares": values.cpu_shares,
        "quota": values.cpu_quota,
        "period": values.cpu_period,
        "cpus": values.cpuset_cpus,
        "mems": values.cpuset_mems,
    }
    memory = {"limit": values.memory_limit, "swap": values.memory_swap_limit}
    found: Obj = {
        "devices": [{"allow": has_devices, "access": "rwm"}],
        "cpu": {name: value for name, value in cpu.items() if value},
        "memory": {name: value for name, value in memory.items() if value},
    }
    if values.unified:
        found["unified"] = dict(values.unified)
    return found


def _process(spec: ContainerSpec, user: ImageUser, least_oom_score_adj: int) -> Obj:
    held, security = capabilities(spec.security), spec.security
    of_user = held if user.uid == 0 else []
    return {
        "terminal": spec.has_tty,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": groups_of(security, user)},
        "args": list(spec.argv),
        "env": [f"{name}={value}" for name, value in variables_of(spec, user).items()],
        "cwd": spec.working_dir,
        "capabilities": {"bounding": held, "permitted": of_user, "effective": of_user},
        "noNewPrivileges": security.has_no_new_privileges,
        "oomScoreAdj": max(spec.resources.oom_score_adj, least_oom_score_adj),
        **_apparmor(security.apparmor),
    }


def _apparmor(profile: AppArmorProfile | None) -> Obj:
    """Whoever says nothing is not confined: neither crun nor runc comes with a profile."""
    if profile is not None and profile.type == "RuntimeDefault":
        raise RuntimeFailure("this runtime has no AppArmor profile of its own: say Localhost, or Unconfined")
    return {"apparmorProfile": profile.name} if profile is not None and profile.type == "Localhost" else {}


def _namespaces(spec: ContainerSpec, sandbox: SandboxFiles, processes: Path | None) -> Iterable[Obj]:
    yield {"type": "mount"}
    yield {"type": "cgroup"}
    if processes is not None:
        yield {"type": "pid", "path": str(processes)}
    elif not spec.host_pid:
        yield {"type": "pid"}
    for name, kind in PINNED.items():
        if (pin := sandbox.pin(name)).exists():
            yield {"type": kind, "path": str(pin)}


def _mappings(users: IdRange | None) -> Obj:
    if users is None:
        return {}
    mapping = [{"containerID": 0, "hostID": users.first, "size": users.length}]
    return {"uidMappings": mapping, "gidMappings": mapping}


def _system_mounts(sandbox: SandboxFiles, access: str) -> Iterable[Obj]:
    yield _system("/proc", "proc", "nosuid,noexec,nodev")
    yield _system("/dev", "tmpfs", "nosuid,strictatime,mode=755,size=65536k")
    yield _system("/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5")
    yield _system("/dev/mqueue", "mqueue", "nosuid,noexec,nodev")
    yield _system("/sys", "sysfs", f"nosuid,noexec,nodev,{access}")
    yield _system("/sys/fs/cgroup", "cgroup", f"nosuid,noexec,nodev,relatime,{access}")
    yield _bind(Mount(sandbox.shm, "/dev/shm"))


def _system(target: str, kind: str, options: str) -> Obj:
    return {"destination": target, "type": kind, "source": kind, "options": options.split(",")}


def _bind(mount: Mount, lasting: Iterable[str] = ()) -> Obj:
    access = "rro" if mount.is_read_only_below else "ro" if mount.read_only else "rw"
    options = ["rbind", mount.propagation, access, *lasting]
    return {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options}


def _lasting(source: Path) -> Iterable[str]:
    """What its mount does not allow: users of a pod's own may not change a mount without it, as runc would."""
    flags = os.statvfs(source).f_flag
    return [name for flag, name in _RESTRICTIONS.items() if flags & flag]


def _last_words(spec: ContainerSpec, files: ContainerFiles) -> Iterable[Obj]:
    if spec.termination_message_path:
        yield _bind(Mount(files.last_words, spec.termination_message_path))
