"""The messages of CRI (runtime.v1) as far as we use them, and the calls that take them.

Source: k8s.io/cri-api `pkg/apis/runtime/v1/api.proto` (1.36).
"""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.grpc.methods import Answer, Asked, Method, Nothing
from fairlead.agent.grpc.protobuf import Message
from fairlead.agent.runtimes.base import SHARED, SLAVE

# NamespaceMode
POD, CONTAINER, NODE, TARGET = 0, 1, 2, 3
# PodSandboxState
READY, NOT_READY = 0, 1
# ContainerState
CREATED, RUNNING, EXITED, UNKNOWN = 0, 1, 2, 3
# SecurityProfile.ProfileType
RUNTIME_DEFAULT, UNCONFINED, LOCALHOST = 0, 1, 2
# SupplementalGroupsPolicy
MERGE, STRICT = 0, 1
# CgroupDriver
SYSTEMD, CGROUPFS = 0, 1
# ContainerEventType
STOPPED_EVENT, DELETED_EVENT = 2, 3
# Protocol
PROTOCOLS: Final = {"TCP": 0, "UDP": 1, "SCTP": 2}
# MountPropagation, as mount(8) spells it
PROPAGATIONS: Final = {"rprivate": 0, SLAVE: 1, SHARED: 2}


class Int64Value(Message, frozen=True):
    value: Annotated[int, 1] = 0


# --- the runtime ----------------------------------------------------------------------------------------------------


class VersionRequest(Message, frozen=True):
    version: Annotated[str, 1] = ""


class VersionResponse(Message, frozen=True):
    runtime_name: Annotated[str, 2] = ""
    runtime_version: Annotated[str, 3] = ""


class RuntimeCondition(Message, frozen=True):
    type: Annotated[str, 1] = ""
    status: Annotated[bool, 2] = False
    reason: Annotated[str, 3] = ""
    message: Annotated[str, 4] = ""


class RuntimeStatus(Message, frozen=True):
    conditions: Annotated[list[RuntimeCondition], 1] = []


class StatusRequest(Message, frozen=True):
    verbose: Annotated[bool, 1] = False


class RuntimeFeatures(Message, frozen=True):
    supplemental_groups_policy: Annotated[bool, 1] = False


class RuntimeHandlerFeatures(Message, frozen=True):
    recursive_read_only_mounts: Annotated[bool, 1] = False
    user_namespaces: Annotated[bool, 2] = False


class RuntimeHandler(Message, frozen=True):
    name: Annotated[str, 1] = ""
    features: Annotated[RuntimeHandlerFeatures, 2] = RuntimeHandlerFeatures()


class StatusResponse(Message, frozen=True):
    status: Annotated[RuntimeStatus, 1] = RuntimeStatus()
    info: Annotated[dict[str, str], 2] = {}
    runtime_handlers: Annotated[list[RuntimeHandler], 3] = []
    features: Annotated[RuntimeFeatures, 4] = RuntimeFeatures()


class LinuxRuntimeConfiguration(Message, frozen=True):
    cgroup_driver: Annotated[int, 1] = SYSTEMD


class RuntimeConfigResponse(Message, frozen=True):
    linux: Annotated[LinuxRuntimeConfiguration | None, 1] = None


# --- sandboxes ------------------------------------------------------------------------------------------------------


class PodSandboxMetadata(Message, frozen=True):
    name: Annotated[str, 1] = ""
    uid: Annotated[str, 2] = ""
    namespace: Annotated[str, 3] = ""
    attempt: Annotated[int, 4] = 0


class IdMapping(Message, frozen=True):
    host_id: Annotated[int, 1] = 0
    container_id: Annotated[int, 2] = 0
    length: Annotated[int, 3] = 0


class UserNamespace(Message, frozen=True):
    mode: Annotated[int, 1] = POD
    uids: Annotated[list[IdMapping], 2] = []
    gids: Annotated[list[IdMapping], 3] = []


class NamespaceOption(Message, frozen=True):
    network: Annotated[int, 1] = POD
    pid: Annotated[int, 2] = POD
    ipc: Annotated[int, 3] = POD
    target_id: Annotated[str, 4] = ""
    userns_options: Annotated[UserNamespace | None, 5] = None


class PortMapping(Message, frozen=True):
    protocol: Annotated[int, 1] = 0
    container_port: Annotated[int, 2] = 0
    host_port: Annotated[int, 3] = 0
    host_ip: Annotated[str, 4] = ""


class SecurityProfile(Message, frozen=True):
    profile_type: Annotated[int, 1] = RUNTIME_DEFAULT
    localhost_ref: Annotated[str, 2] = ""


class LinuxSandboxSecurityContext(Message, frozen=True):
    namespace_options: Annotated[NamespaceOption, 1] = NamespaceOption()
    privileged: Annotated[bool, 6] = False
    seccomp: Annotated[SecurityProfile, 9] = SecurityProfile()


class LinuxPodSandboxConfig(Message, frozen=True):
    cgroup_parent: Annotated[str, 1] = ""
    security_context: Annotated[LinuxSandboxSecurityContext, 2] = LinuxSandboxSecurityContext()
    sysctls: Annotated[dict[str, str], 3] = {}


class PodSandboxConfig(Message, frozen=True):
    metadata: Annotated[PodSandboxMetadata, 1] = PodSandboxMetadata()
    hostname: Annotated[str, 2] = ""
    log_directory: Annotated[str, 3] = ""
    port_mappings: Annotated[list[PortMapping], 5] = []
    labels: Annotated[dict[str, str], 6] = {}
    annotations: Annotated[dict[str, str], 7] = {}
    linux: Annotated[LinuxPodSandboxConfig, 8] = LinuxPodSandboxConfig()


class RunPodSandboxRequest(Message, frozen=True):
    config: Annotated[PodSandboxConfig, 1]
    runtime_handler: Annotated[str, 2] = ""


class PodSandboxId(Message, frozen=True):
    """What RunPodSandbox answers, and what asks to stop or remove one."""

    pod_sandbox_id: Annotated[str, 1] = ""


class PodSandboxStatusRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1]
    verbose: Annotated[bool, 2] = False


class PodIP(Message, frozen=True):
    ip: Annotated[str, 1] = ""


class PodSandboxNetworkStatus(Message, frozen=True):
    ip: Annotated[str, 1] = ""
    additional_ips: Annotated[list[PodIP], 2] = []


class Namespace(Message, frozen=True):
    options: Annotated[NamespaceOption, 2] = NamespaceOption()


class LinuxPodSandboxStatus(Message, frozen=True):
    namespaces: Annotated[Namespace, 1] = Namespace()


class PodSandboxStatus(Message, frozen=True):
    state: Annotated[int, 3] = READY
    network: Annotated[PodSandboxNetworkStatus, 5] = PodSandboxNetworkStatus()
    linux: Annotated[LinuxPodSandboxStatus, 6] = LinuxPodSandboxStatus()


class PodSandboxStatusResponse(Message, frozen=True):
    status: Annotated[PodSandboxStatus, 1] = PodSandboxStatus()
    info: Annotated[dict[str, str], 2] = {}


class LabelFilter(Message, frozen=True):
    """PodSandboxFilter, as far as we filter."""

    labels: Annotated[dict[str, str], 3] = {}


class ListPodSandboxRequest(Message, frozen=True):
    filter: Annotated[LabelFilter, 1]


class PodSandbox(Message, frozen=True):
    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata, 2] = PodSandboxMetadata()
    state: Annotated[int, 3] = READY
    annotations: Annotated[dict[str, str], 6] = {}


class ListPodSandboxResponse(Message, frozen=True):
    items: Annotated[list[PodSandbox], 1] = []


# --- containers -----------------------------------------------------------------------------------------------------


class ContainerMetadata(Message, frozen=True):
    name: Annotated[str, 1] = ""
    attempt: Annotated[int, 2] = 0


class ImageSpec(Message, frozen=True):
    image: Annotated[str, 1] = ""
    #: As the pod has it, where `image` is an id.
    user_specified_image: Annotated[str, 18] = ""


class KeyValue(Message, frozen=True):
    key: Annotated[str, 1] = ""
    value: Annotated[str, 2] = ""


class Mount(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    readonly: Annotated[bool, 3] = False
    propagation: Annotated[int, 5] = 0
    uid_mappings: Annotated[list[IdMapping], 6] = []
    gid_mappings: Annotated[list[IdMapping], 7] = []
    recursive_read_only: Annotated[bool, 8] = False


class LinuxContainerResources(Message, frozen=True):
    cpu_period: Annotated[int, 1] = 0
    cpu_quota: Annotated[int, 2] = 0
    cpu_shares: Annotated[int, 3] = 0
    memory_limit_in_bytes: Annotated[int, 4] = 0
    oom_score_adj: Annotated[int, 5] = 0
    cpuset_cpus: Annotated[str, 6] = ""
    cpuset_mems: Annotated[str, 7] = ""
    unified: Annotated[dict[str, str], 9] = {}
    memory_swap_limit_in_bytes: Annotated[int, 10] = 0


class Capability(Message, frozen=True):
    add_capabilities: Annotated[list[str], 1] = []
    drop_capabilities: Annotated[list[str], 2] = []


class LinuxContainerSecurityContext(Message, frozen=True):
    capabilities: Annotated[Capability, 1] = Capability()
    privileged: Annotated[bool, 2] = False
    namespace_options: Annotated[NamespaceOption, 3] = NamespaceOption()
    run_as_user: Annotated[Int64Value | None, 5] = None
    run_as_username: Annotated[str, 6] = ""
    readonly_rootfs: Annotated[bool, 7] = False
    supplemental_groups: Annotated[list[int], 8] = []
    no_new_privs: Annotated[bool, 11] = False
    run_as_group: Annotated[Int64Value | None, 12] = None
    masked_paths: Annotated[list[str], 13] = []
    readonly_paths: Annotated[list[str], 14] = []
    seccomp: Annotated[SecurityProfile, 15] = SecurityProfile()
    apparmor: Annotated[SecurityProfile | None, 16] = None
    supplemental_groups_policy: Annotated[int, 17] = MERGE


class LinuxContainerConfig(Message, frozen=True):
    resources: Annotated[LinuxContainerResources, 1] = LinuxContainerResources()
    security_context: Annotated[LinuxContainerSecurityContext, 2] = LinuxContainerSecurityContext()


class Device(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class CDIDevice(Message, frozen=True):
    name: Annotated[str, 1] = ""


class ContainerConfig(Message, frozen=True):
    metadata: Annotated[ContainerMetadata, 1] = ContainerMetadata()
    image: Annotated[ImageSpec, 2] = ImageSpec()
    command: Annotated[list[str], 3] = []
    working_dir: Annotated[str, 5] = ""
    envs: Annotated[list[KeyValue], 6] = []
    mounts: Annotated[list[Mount], 7] = []
    devices: Annotated[list[Device], 8] = []
    labels: Annotated[dict[str, str], 9] = {}
    annotations: Annotated[dict[str, str], 10] = {}
    log_path: Annotated[str, 11] = ""
    stdin: Annotated[bool, 12] = False
    stdin_once: Annotated[bool, 13] = False
    tty: Annotated[bool, 14] = False
    linux: Annotated[LinuxContainerConfig, 15] = LinuxContainerConfig()
    cdi_devices: Annotated[list[CDIDevice], 17] = []


class CreateContainerRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1]
    config: Annotated[ContainerConfig, 2]
    sandbox_config: Annotated[PodSandboxConfig, 3]


class ContainerId(Message, frozen=True):
    """What CreateContainer answers, and what asks to start one, to remove it, or to begin a new log."""

    container_id: Annotated[str, 1] = ""


class StopContainerRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    timeout: Annotated[int, 2] = 0


class UpdateContainerResourcesRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    linux: Annotated[LinuxContainerResources, 2]


class ContainerFilter(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 3] = ""
    labels: Annotated[dict[str, str], 4] = {}


class ListContainersRequest(Message, frozen=True):
    filter: Annotated[ContainerFilter, 1]


class Container(Message, frozen=True):
    id: Annotated[str, 1] = ""
    state: Annotated[int, 6] = CREATED
    labels: Annotated[dict[str, str], 8] = {}


class ListContainersResponse(Message, frozen=True):
    containers: Annotated[list[Container], 1] = []


class ContainerStatusRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    verbose: Annotated[bool, 2] = False


class LinuxContainerUser(Message, frozen=True):
    uid: Annotated[int, 1] = 0
    gid: Annotated[int, 2] = 0
    supplemental_groups: Annotated[list[int], 3] = []


class ContainerUser(Message, frozen=True):
    linux: Annotated[LinuxContainerUser | None, 1] = None


class ContainerStatus(Message, frozen=True):
    """Times in nanoseconds since the epoch."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[ContainerMetadata, 2] = ContainerMetadata()
    state: Annotated[int, 3] = CREATED
    created_at: Annotated[int, 4] = 0
    started_at: Annotated[int, 5] = 0
    finished_at: Annotated[int, 6] = 0
    exit_code: Annotated[int, 7] = 0
    image: Annotated[ImageSpec, 8] = ImageSpec()
    image_ref: Annotated[str, 9] = ""
    reason: Annotated[str, 10] = ""
    message: Annotated[str, 11] = ""
    labels: Annotated[dict[str, str], 12] = {}
    annotations: Annotated[dict[str, str], 13] = {}
    log_path: Annotated[str, 15] = ""
    user: Annotated[ContainerUser, 18] = ContainerUser()


class ContainerStatusResponse(Message, frozen=True):
    status: Annotated[ContainerStatus, 1] = ContainerStatus()
    info: Annotated[dict[str, str], 2] = {}


class ContainerEvent(Message, frozen=True):
    """ContainerEventResponse, as far as we listen."""

    container_id: Annotated[str, 1] = ""
    type: Annotated[int, 2] = 0


# --- in a container -------------------------------------------------------------------------------------------------


class ExecSyncRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    cmd: Annotated[list[str], 2]
    timeout: Annotated[int, 3] = 0


class ExecSyncResponse(Message, frozen=True):
    stdout: Annotated[bytes, 1] = b""
    stderr: Annotated[bytes, 2] = b""
    exit_code: Annotated[int, 3] = 0


class ExecRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    cmd: Annotated[list[str], 2]
    tty: Annotated[bool, 3] = False
    stdin: Annotated[bool, 4] = False
    stdout: Annotated[bool, 5] = False
    stderr: Annotated[bool, 6] = False


class AttachRequest(Message, frozen=True):
    container_id: Annotated[str, 1]
    stdin: Annotated[bool, 2] = False
    tty: Annotated[bool, 3] = False
    stdout: Annotated[bool, 4] = False
    stderr: Annotated[bool, 5] = False


class StreamingUrl(Message, frozen=True):
    """What Exec and Attach answer: where the streams are to be had."""

    url: Annotated[str, 1] = ""


# --- images ---------------------------------------------------------------------------------------------------------


class Image(Message, frozen=True):
    id: Annotated[str, 1] = ""
    repo_tags: Annotated[list[str], 2] = []
    repo_digests: Annotated[list[str], 3] = []
    size: Annotated[int, 4] = 0
    pinned: Annotated[bool, 8] = False


class ListImagesResponse(Message, frozen=True):
    images: Annotated[list[Image], 1] = []


class ImageStatusRequest(Message, frozen=True):
    image: Annotated[ImageSpec, 1]
    verbose: Annotated[bool, 2] = False


class ImageStatusResponse(Message, frozen=True):
    image: Annotated[Image | None, 1] = None
    info: Annotated[dict[str, str], 2] = {}


class AuthConfig(Message, frozen=True):
    username: Annotated[str, 1] = ""
    password: Annotated[str, 2] = ""


class PullImageRequest(Message, frozen=True):
    image: Annotated[ImageSpec, 1]
    auth: Annotated[AuthConfig | None, 2] = None


class PullImageResponse(Message, frozen=True):
    image_ref: Annotated[str, 1] = ""


class RemoveImageRequest(Message, frozen=True):
    image: Annotated[ImageSpec, 1]


class FilesystemUsage(Message, frozen=True):
    used_bytes: Annotated[Int64Value, 3] = Int64Value()
    inodes_used: Annotated[Int64Value, 4] = Int64Value()


class ImageFsInfoResponse(Message, frozen=True):
    image_filesystems: Annotated[list[FilesystemUsage], 1] = []


# --- calls ----------------------------------------------------------------------------------------------------------


def _runtime(name: str, asked: type[Asked], answer: type[Answer]) -> Method[Asked, Answer]:
    return Method(f"/runtime.v1.RuntimeService/{name}", asked, answer)


def _image(name: str, asked: type[Asked], answer: type[Answer]) -> Method[Asked, Answer]:
    return Method(f"/runtime.v1.ImageService/{name}", asked, answer)


VERSION: Final = _runtime("Version", VersionRequest, VersionResponse)
STATUS: Final = _runtime("Status", StatusRequest, StatusResponse)
RUNTIME_CONFIG: Final = _runtime("RuntimeConfig", Nothing, RuntimeConfigResponse)
RUN_SANDBOX: Final = _runtime("RunPodSandbox", RunPodSandboxRequest, PodSandboxId)
STOP_SANDBOX: Final = _runtime("StopPodSandbox", PodSandboxId, Nothing)
REMOVE_SANDBOX: Final = _runtime("RemovePodSandbox", PodSandboxId, Nothing)
SANDBOX_STATUS: Final = _runtime("PodSandboxStatus", PodSandboxStatusRequest, PodSandboxStatusResponse)
LIST_SANDBOXES: Final = _runtime("ListPodSandbox", ListPodSandboxRequest, ListPodSandboxResponse)
CREATE: Final = _runtime("CreateContainer", CreateContainerRequest, ContainerId)
START: Final = _runtime("StartContainer", ContainerId, Nothing)
STOP: Final = _runtime("StopContainer", StopContainerRequest, Nothing)
REMOVE: Final = _runtime("RemoveContainer", ContainerId, Nothing)
LIST: Final = _runtime("ListContainers", ListContainersRequest, ListContainersResponse)
CONTAINER_STATUS: Final = _runtime("ContainerStatus", ContainerStatusRequest, ContainerStatusResponse)
CONTAINER_EVENTS: Final = _runtime("GetContainerEvents", Nothing, ContainerEvent)
UPDATE: Final = _runtime("UpdateContainerResources", UpdateContainerResourcesRequest, Nothing)
REOPEN_LOG: Final = _runtime("ReopenContainerLog", ContainerId, Nothing)
EXEC_SYNC: Final = _runtime("ExecSync", ExecSyncRequest, ExecSyncResponse)
EXEC: Final = _runtime("Exec", ExecRequest, StreamingUrl)
ATTACH: Final = _runtime("Attach", AttachRequest, StreamingUrl)
LIST_IMAGES: Final = _image("ListImages", Nothing, ListImagesResponse)
IMAGE_STATUS: Final = _image("ImageStatus", ImageStatusRequest, ImageStatusResponse)
PULL: Final = _image("PullImage", PullImageRequest, PullImageResponse)
REMOVE_IMAGE: Final = _image("RemoveImage", RemoveImageRequest, Nothing)
IMAGE_FS: Final = _image("ImageFsInfo", Nothing, ImageFsInfoResponse)
