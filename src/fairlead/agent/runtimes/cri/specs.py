"""What CRI is told of sandboxes and containers.

Labels are a kubelet's, so that `crictl` shows our pods as any other's. What a new agent has to know again stands there
and in annotations: the runtime keeps it, and we have no files of our own to lose. Our label says whose they are:
several agents, and a kubelet, may share a runtime.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.base import (
    START_ERROR,
    AppArmorProfile,
    ContainerSpec,
    ContainerStatus,
    HandlerFeatures,
    RunsAs,
    SandboxSpec,
    Security,
    State,
)
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.proc_paths import MASKED, READ_ONLY
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.containers import OOM_KILLED, UNKNOWN

#: The folder of the agent.
ROOT_LABEL: Final = "fairlead.dev/root"
#: Below the root of each hierarchy.
CGROUP: Final = "fairlead.dev/cgroup"
#: The agent's own name of a run of a container, and what else CRI does not tell.
RUN: Final = "fairlead.dev/run"
_IMAGE_ID: Final = "fairlead.dev/image-id"
_STOP_SIGNAL: Final = "fairlead.dev/stop-signal"
_TTY: Final = "fairlead.dev/tty"
_UID: Final = "io.kubernetes.pod.uid"

_PROFILE_TYPES: Final = {
    "RuntimeDefault": cri.RUNTIME_DEFAULT,
    "Unconfined": cri.UNCONFINED,
    "Localhost": cri.LOCALHOST,
}
_NANO: Final = 1e-9
STATES: Final = {cri.CREATED: State.CREATED, cri.RUNNING: State.RUNNING, cri.EXITED: State.EXITED}


def sandbox_config(spec: SandboxSpec, root: Path) -> cri.PodSandboxConfig:
    namespaces = cri.NamespaceOption(
        network=cri.NODE if spec.host_network else cri.POD,
        pid=_processes(spec),
        ipc=cri.NODE if spec.host_ipc else cri.POD,
        userns_options=_users(spec),
    )
    ports = [
        cri.PortMapping(
            protocol=cri.PROTOCOLS[port.protocol],
            container_port=port.container_port,
            host_port=port.host_port,
            host_ip=port.host_ip,
        )
        for port in spec.host_ports
    ]
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=spec.name, uid=spec.uid, namespace=spec.namespace),
        hostname="" if spec.host_network else spec.hostname,
        log_directory=str(spec.logs),
        port_mappings=ports,
        labels={ROOT_LABEL: str(root), **_pod_labels(spec)},
        annotations={CGROUP: spec.cgroup},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=spec.cgroup,
            security_context=cri.LinuxSandboxSecurityContext(
                namespace_options=namespaces, privileged=spec.is_privileged
            ),
            sysctls=dict(spec.sysctls),
        ),
    )


def _mappings(spec: SandboxSpec) -> list[cri.IdMapping]:
    return [cri.IdMapping(host_id=spec.users.first, length=spec.users.length)] if spec.users is not None else []


def _users(spec: SandboxSpec) -> cri.UserNamespace | None:
    if spec.users is None:
        return None
    return cri.UserNamespace(mode=cri.POD, uids=_mappings(spec), gids=_mappings(spec))


def handler_features(handler: cri.RuntimeHandler) -> HandlerFeatures:
    said = handler.features
    return HandlerFeatures(said.recursive_read_only_mounts, said.user_namespaces)


def _processes(spec: SandboxSpec) -> int:
    """Whose processes its containers see."""
    if spec.host_pid:
        return cri.NODE
    return cri.POD if spec.shares_processes else cri.CONTAINER


def _pod_labels(spec: SandboxSpec) -> dict[str, str]:
    return {_UID: spec.uid, "io.kubernetes.pod.name": spec.name, "io.kubernetes.pod.namespace": spec.namespace}


def container_config(
    spec: ContainerSpec, sandbox: SandboxSpec, root: Path, last_words: Path, least_oom_score_adj: int
) -> cri.ContainerConfig:
    mappings = _mappings(sandbox)
    mounts = [
        cri.Mount(
            container_path=mount.target,
            host_path=str(mount.source),
            readonly=mount.read_only or mount.is_read_only_below,
            recursive_read_only=mount.is_read_only_below,
            propagation=cri.PROPAGATIONS[mount.propagation],
            uid_mappings=mappings,
            gid_mappings=mappings,
        )
        for mount in spec.mounts
    ]
    if spec.termination_message_path:
        mounts.append(cri.Mount(container_path=spec.termination_message_path, host_path=str(last_words)))
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=spec.name, attempt=spec.attempt),
        image=cri.ImageSpec(image=spec.image_id, user_specified_image=spec.image),
        command=list(spec.argv),
        working_dir=spec.working_dir,
        envs=[cri.KeyValue(key=name, value=value) for name, value in spec.env.items()],
        mounts=mounts,
        devices=[
            cri.Device(container_path=device.target, host_path=device.source, permissions=device.access)
            for device in spec.devices
        ],
        labels={ROOT_LABEL: str(root), **_pod_labels(sandbox), "io.kubernetes.container.name": spec.name},
        annotations={
            **spec.annotations,
            RUN: spec.id,
            _IMAGE_ID: spec.image_id,
            _STOP_SIGNAL: str(spec.stop_signal),
            _TTY: str(spec.has_tty).lower(),
        },
        log_path=str(spec.log.relative_to(sandbox.logs)),
        stdin=spec.has_stdin,
        stdin_once=spec.has_stdin_once,
        tty=spec.has_tty,
        linux=cri.LinuxContainerConfig(
            resources=resources(spec.resources, least_oom_score_adj),
            security_context=_security(spec, sandbox),
        ),
        cdi_devices=[cri.CDIDevice(name=name) for name in spec.cdi_devices],
    )


def resources(values: ContainerValues, least_oom_score_adj: int) -> cri.LinuxContainerResources:
    return cri.LinuxContainerResources(
        cpu_period=values.cpu_period,
        cpu_quota=values.cpu_quota,
        cpu_shares=values.cpu_shares,
        memory_limit_in_bytes=values.memory_limit,
        oom_score_adj=max(values.oom_score_adj, least_oom_score_adj),
        cpuset_cpus=values.cpuset_cpus,
        cpuset_mems=values.cpuset_mems,
        unified=dict(values.unified),
        memory_swap_limit_in_bytes=values.memory_swap_limit,
    )


def _security(spec: ContainerSpec, sandbox: SandboxSpec) -> cri.LinuxContainerSecurityContext:
    security = spec.security
    uid, name, gid = _user(security)
    namespaces = cri.NamespaceOption(
        network=cri.NODE if sandbox.host_network else cri.POD,
        pid=cri.TARGET if spec.process_target else _processes(sandbox),
        ipc=cri.NODE if sandbox.host_ipc else cri.POD,
        target_id=spec.process_target,
        userns_options=_users(sandbox),
    )
    is_masked = security.is_proc_masked and not security.is_privileged
    return cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(
            add_capabilities=list(security.added_capabilities), drop_capabilities=list(security.dropped_capabilities)
        ),
        namespace_options=namespaces,
        run_as_user=uid,
        run_as_username=name,
        run_as_group=gid,
        readonly_rootfs=security.has_read_only_root,
        supplemental_groups=list(security.groups),
        no_new_privs=security.has_no_new_privileges,
        masked_paths=list(MASKED) if is_masked else [],
        readonly_paths=list(READ_ONLY) if is_masked else [],
        seccomp=_seccomp(security),
        apparmor=_apparmor(security.apparmor),
        privileged=security.is_privileged,
        supplemental_groups_policy=cri.STRICT if security.has_no_image_groups else cri.MERGE,
    )


def _seccomp(security: Security) -> cri.SecurityProfile:
    """A privileged container has none, whatever it says."""
    if security.seccomp is not None and not security.is_privileged:
        return cri.SecurityProfile(profile_type=cri.LOCALHOST, localhost_ref=str(security.seccomp))
    is_confined = security.is_seccomp_confined and not security.is_privileged
    return cri.SecurityProfile(profile_type=cri.RUNTIME_DEFAULT if is_confined else cri.UNCONFINED)


def _apparmor(profile: AppArmorProfile | None) -> cri.SecurityProfile | None:
    """With none the runtime gives its default, where the kernel has AppArmor."""
    if profile is None:
        return None
    return cri.SecurityProfile(profile_type=_PROFILE_TYPES[profile.type], localhost_ref=profile.name)


def _user(security: Security) -> tuple[cri.Int64Value | None, str, cri.Int64Value | None]:
    """By number, or by name; a group that has a name stands with the user's, as images write both."""
    user, _, group = security.user.partition(":")
    if group and not group.isdecimal():
        return None, security.user, None
    gid = cri.Int64Value(value=int(group)) if group else None
    if user.isdecimal():
        return cri.Int64Value(value=int(user)), "", gid
    return None, user, gid


class _Linux(msgspec.Struct, rename="camel"):
    cgroups_path: str = ""


class _RuntimeSpec(msgspec.Struct):
    linux: _Linux = msgspec.field(default_factory=_Linux)


class _Info(msgspec.Struct, rename="camel"):
    """What the runtime says of a container besides, as containerd and CRI-O spell it."""

    pid: int = 0
    runtime_spec: _RuntimeSpec = msgspec.field(default_factory=_RuntimeSpec)


def status_of(answer: cri.ContainerStatusResponse) -> ContainerStatus:
    """What nobody knows the state of has ended."""
    found, said, info, user = answer.status, answer.status.annotations, _info(answer), answer.status.user.linux
    is_start_error, stop_signal = found.reason == START_ERROR, said.get(_STOP_SIGNAL, "")
    started_at, finished_at = max(found.started_at, 0), max(found.finished_at, 0)
    return ContainerStatus(
        id=found.id,
        pod_uid=found.labels.get(_UID, ""),
        name=found.metadata.name,
        attempt=found.metadata.attempt,
        image=found.image.image,
        image_id=said.get(_IMAGE_ID, ""),
        image_ref=found.image_ref,
        state=STATES.get(found.state, State.EXITED),
        log=Path(found.log_path),
        cgroup_name=info.runtime_spec.linux.cgroups_path.rpartition("/")[2] or found.id,
        pid=info.pid if found.state in (cri.CREATED, cri.RUNNING) else 0,
        created_at=found.created_at * _NANO,
        started_at=started_at * _NANO,
        # a short run may have ended before the runtime notes that it has begun
        finished_at=max(finished_at, started_at if finished_at else 0) * _NANO,
        exit_code=found.exit_code,
        is_oom_killed=found.reason == OOM_KILLED,
        is_lost=found.reason == UNKNOWN,
        start_error=found.message if is_start_error else "",
        stop_signal=int(stop_signal) if stop_signal.isdecimal() else signal.SIGTERM,
        has_tty=said.get(_TTY) == "true",
        runs_as=RunsAs(user.uid, user.gid, tuple(user.supplemental_groups)) if user is not None else None,
    )


def _info(answer: cri.ContainerStatusResponse) -> _Info:
    try:
        return msgspec.json.decode(answer.info.get("info", "{}"), type=_Info)
    except msgspec.DecodeError:
        return _Info()
