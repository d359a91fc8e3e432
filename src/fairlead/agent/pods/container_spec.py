"""From a container of a pod, and the image that is there, to what the runtime is told.

Sources: generateContainerConfig of pkg/kubelet/kuberuntime, pkg/securitycontext.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agent.device_plugins.given import DevicesGiven
from fairlead.agent.images_seam import Image
from fairlead.agent.pods.apparmor import profile_of
from fairlead.agent.pods.environment import CannotConfigure, all_expanded
from fairlead.agent.runtimes.base import ContainerSpec, Mount, Security
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.node.cgroups.containers import ContainerValues

_DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
_LONGEST_PROFILE: Final = 1 << 20


class Made(msgspec.Struct, frozen=True):
    """What else a container is made of."""

    id: str
    attempt: int
    image: Image
    env: Mapping[str, str]
    mounts: Sequence[Mount]
    resources: ContainerValues
    log: Path
    #: Where seccomp profiles of this machine lie, and what a container has that says nothing.
    profiles: Path
    default_seccomp: Obj
    #: The container whose processes it is to see.
    process_target: str = ""
    #: What drivers have prepared, as CDI names it.
    cdi_devices: Sequence[str] = ()
    #: What plugins have given.
    devices: DevicesGiven = DevicesGiven()


def container_spec(manifest: Obj, container: Obj, made: Made) -> ContainerSpec:
    """CannotConfigure for what a kubelet would not start."""
    spec, image = manifest["spec"], made.image
    env = _image_env(image) | dict(made.env)
    return ContainerSpec(
        id=made.id,
        pod_uid=manifest["metadata"]["uid"],
        name=container["name"],
        attempt=made.attempt,
        image=container["image"],
        image_id=image.id,
        layers=image.layers,
        argv=_argv(container, image, made.env),
        env=env,
        working_dir=container.get("workingDir") or image.config.working_dir or "/",
        mounts=made.mounts,
        resources=made.resources,
        security=_security(manifest, container, made),
        host_pid=bool(spec.get("hostPID")),
        process_target=made.process_target,
        cdi_devices=[*made.devices.cdi, *made.cdi_devices],
        devices=made.devices.devices,
        annotations=made.devices.annotations,
        has_tty=bool(container.get("tty")),
        has_stdin=bool(container.get("stdin")),
        has_stdin_once=bool(container.get("stdinOnce")),
        log=made.log,
        stop_signal=_signal((container.get("lifecycle") or {}).get("stopSignal") or image.config.stop_signal),
        termination_message_path=container.get("terminationMessagePath") or _DEFAULT_MESSAGE_PATH,
    )


def _argv(container: Obj, image: Image, env: Mapping[str, str]) -> list[str]:
    """A command takes the place of the entrypoint and of what the image would tell it; arguments that of the latter."""
    command = all_expanded(container.get("command") or (), env)
    args = all_expanded(container.get("args") or (), env)
    if command:
        argv = command + args
    else:
        argv = [*(image.config.entrypoint or ()), *(args or image.config.cmd or ())]
    if not argv:
        raise CannotConfigure("no command specified")
    return argv


def _image_env(image: Image) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in image.config.env or ())
    return {name: value for name, _, value in pairs}


def _security(manifest: Obj, container: Obj, made: Made) -> Security:
    image = made.image
    of_pod = manifest["spec"].get("securityContext") or {}
    own = container.get("securityContext") or {}

    def chosen(name: str) -> Any:
        return own[name] if own.get(name) is not None else of_pod.get(name)

    uid, gid = chosen("runAsUser"), chosen("runAsGroup")
    if chosen("runAsNonRoot"):
        _check_not_root(manifest, container, uid, image.config.user)
    user = image.config.user if uid is None else str(uid)
    if gid is not None:
        user = f"{user.partition(':')[0] or '0'}:{gid}"
    groups = list(of_pod.get("supplementalGroups") or ())
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    capabilities = own.get("capabilities") or {}
    profile = chosen("seccompProfile") or made.default_seccomp
    return Security(
        user=user,
        groups=groups,
        has_no_image_groups=of_pod.get("supplementalGroupsPolicy") == "Strict",
        is_privileged=bool(own.get("privileged")),
        must_not_be_root=bool(chosen("runAsNonRoot")),
        added_capabilities=capabilities.get("add") or (),
        dropped_capabilities=capabilities.get("drop") or (),
        has_read_only_root=bool(own.get("readOnlyRootFilesystem")),
        has_no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        is_proc_masked=own.get("procMount") != "Unmasked",
        is_seccomp_confined=profile.get("type") == "RuntimeDefault",
        apparmor=profile_of(manifest, container),
        seccomp=_checked(made.profiles / profile["localhostProfile"]) if profile.get("type") == "Localhost" else None,
    )


def _checked(path: Path) -> Path:
    """A profile of the machine's own; CannotConfigure if it is none."""
    try:
        with path.open("rb") as file:
            profile = msgspec.json.decode(file.read(_LONGEST_PROFILE))
    except (OSError, msgspec.DecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise CannotConfigure(f"cannot load seccomp profile {go_quote(str(path))}: {reason}") from problem
    if not isinstance(profile, dict) or "defaultAction" not in profile:
        raise CannotConfigure(f"cannot load seccomp profile {go_quote(str(path))}: it has no defaultAction")
    return path


def _check_not_root(manifest: Obj, container: Obj, uid: int | None, image_user: str) -> None:
    meta = manifest["metadata"]
    where = f'(pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: {container["name"]})'
    name = image_user.partition(":")[0]
    if uid == 0:
        raise CannotConfigure(f"container's runAsUser breaks non-root policy {where}")
    if uid is None and name and not name.isdecimal():
        message = f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        raise CannotConfigure(f"{message} {where}")
    if uid is None and int(name or "0") == 0:
        raise CannotConfigure(f"container has runAsNonRoot and image will run as root {where}")


def _signal(text: str) -> int:
    """As images name it: SIGTERM, TERM or a number; what nobody knows is SIGTERM."""
    if text.isdecimal():
        return int(text)
    name = text if text.startswith("SIG") else f"SIG{text}"
    return int(getattr(signal, name, signal.SIGTERM))
