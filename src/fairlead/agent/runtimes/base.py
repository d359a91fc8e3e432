"""The contract with whatever runs containers, so that nothing above it knows whether that is conmon or a CRI socket.

A sandbox is what the containers of one pod share (namespaces, a cgroup); it has the pod's uid as its id. A container is
one run of a container of a pod: a restart makes a new one, with the next attempt. Who gives it its id is up to the
runtime. Its life:

    created ─▶ running ─▶ exited ─▶ removed
       └─────────────────▶ (the program cannot be started: exited, START_FAILED)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from fairlead.agent.kubelet_api.pod_streams import ProcessStreams
from fairlead.agent.network_seam import HostPort
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.runtime.streaming.remote_command import Wanted

#: What a container ends with whose program could not be started (containerd's code and reason).
START_FAILED: Final = 128
START_ERROR: Final = "StartError"


class RuntimeFailure(Exception):
    """The runtime could not do what it was asked for; the text says why."""


class CannotStart(RuntimeFailure):
    """A container is there, but its program does not start."""


class IdRange(NamedTuple):
    """Ids of users and groups of the machine: those of a pod are the first of them, from 0 on."""

    first: int
    length: int


class HandlerFeatures(msgspec.Struct, frozen=True):
    """What one of a runtime's ways to run containers can do, as the status of a node tells it."""

    has_recursive_read_only_mounts: bool = False
    #: Pods may have users of their own.
    has_user_namespaces: bool = False


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    namespace: str
    name: str
    hostname: str
    #: Below the root of each cgroup hierarchy.
    cgroup: str
    #: Below it the logs of its containers lie.
    logs: Path
    host_network: bool = False
    host_ipc: bool = False
    host_pid: bool = False
    host_ports: Sequence[HostPort] = ()
    #: By name, as the kernel has them for namespaces of the pod's own.
    sysctls: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Its containers see each other's processes.
    shares_processes: bool = False
    #: One of its containers is.
    is_privileged: bool = False
    #: Which of the runtime's ways to run containers, as a RuntimeClass names it; empty: its default.
    handler: str = ""
    #: Whose ids its users have; None: they are the machine's.
    users: IdRange | None = None


class Sandbox(NamedTuple):
    uid: str
    namespace: str
    name: str
    cgroup: str
    #: None: that of the machine.
    netns: Path | None
    #: Those that the runtime's own network gave it; with none it has to be attached to one.
    addresses: tuple[str, ...] = ()
    #: Which of the runtime's ways to run containers; empty: its default.
    handler: str = ""
    users: IdRange | None = None


#: How mount(8) spells that what the machine mounts there the container sees, and that either sees what the other does.
SLAVE: Final = "rslave"
SHARED: Final = "rshared"


class Mount(msgspec.Struct, frozen=True):
    """Something of the machine that is to be seen in a container."""

    source: Path
    target: str
    read_only: bool = False
    #: With all that is mounted below it.
    is_read_only_below: bool = False
    #: As mount(8) spells it.
    propagation: str = "rprivate"


class MachineDevice(NamedTuple):
    """A device of the machine, or a folder of them, that a container may use."""

    source: str
    target: str
    #: Of `r` (read), `w` (write) and `m` (make its node).
    access: str


class AppArmorProfile(NamedTuple):
    """As a pod says it: RuntimeDefault, Unconfined, or Localhost with the name of one that the kernel has loaded."""

    type: str
    name: str = ""


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """What a container may do."""

    user: str = ""  # as an image says it: USER[:GROUP], names or numbers
    groups: Sequence[int] = ()
    #: Without those that the image gives to the user.
    has_no_image_groups: bool = False
    #: Everything that the machine itself may do, with its devices.
    is_privileged: bool = False
    must_not_be_root: bool = False
    added_capabilities: Sequence[str] = ()
    dropped_capabilities: Sequence[str] = ()
    has_read_only_root: bool = False
    has_no_new_privileges: bool = False
    #: False with `procMount: Unmasked`.
    is_proc_masked: bool = True
    #: With the profile RuntimeDefault.
    is_seccomp_confined: bool = False
    #: Or with a profile of its own: a file, which has been looked at.
    seccomp: Path | None = None
    #: None: as the runtime does with whoever says nothing.
    apparmor: AppArmorProfile | None = None


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    #: What it is called where the runtime has no names of its own: the same for the same run of a container.
    id: str
    pod_uid: str
    name: str
    attempt: int
    image: str
    image_id: str
    #: Directories of the image, the lowest first.
    layers: Sequence[Path]
    argv: Sequence[str]
    env: Mapping[str, str]
    working_dir: str = "/"
    mounts: Sequence[Mount] = ()
    resources: ContainerValues
    security: Security = msgspec.field(default_factory=Security)
    #: Devices that are described to the runtime by these names (CDI).
    cdi_devices: Sequence[str] = ()
    devices: Sequence[MachineDevice] = ()
    #: For the runtime, and what it calls.
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Those of its pod.
    users: IdRange | None = None
    host_pid: bool = False
    #: The container whose processes it sees, instead of those of its own.
    process_target: str = ""
    has_tty: bool = False
    has_stdin: bool = False
    #: Its stdin ends when the first who attaches goes.
    has_stdin_once: bool = False
    log: Path
    stop_signal: int = 15
    #: Where in the container it leaves its last words.
    termination_message_path: str = ""


class State(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


class RunsAs(msgspec.Struct, frozen=True):
    """Who the first process of a container is."""

    uid: int
    gid: int
    #: All of them, that one first.
    groups: tuple[int, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a container now."""

    id: str
    pod_uid: str
    name: str
    attempt: int
    image: str
    image_id: str
    state: State
    log: Path
    #: The image as the status of its pod names it: with the digest that its registry has for it; empty: by its id.
    image_ref: str = ""
    #: What its cgroup is called, below that of its pod.
    cgroup_name: str
    #: The first process; 0 once it has ended.
    pid: int = 0
    #: Seconds since the epoch.
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    is_oom_killed: bool = False
    #: Nobody saw how it ended; its exit code is then made up.
    is_lost: bool = False
    #: Why it did not start.
    start_error: str = ""
    stop_signal: int = 15
    has_tty: bool = False
    #: None where the runtime does not tell.
    runs_as: RunsAs | None = None


class Executed(NamedTuple):
    """A command that ran in a container to its end."""

    exit_code: int
    output: bytes


class Runtime(Protocol):
    """Every operation may be repeated: what is there already is left, what is gone already is no error."""

    #: As container ids begin: `NAME://ID`.
    name: str
    version: str
    #: Whether it can leave out the groups that an image gives its user: `supplementalGroupsPolicy: Strict`.
    has_strict_groups: bool
    #: Whether files may have several owners: else a volume needs none, its one user may do everything.
    has_users: bool

    @property
    def handlers(self) -> Mapping[str, HandlerFeatures]:
        """Its ways to run containers, by name; that of its default is empty."""
        ...

    @property
    def limits(self) -> Sequence[str]:
        """What it cannot do on this machine, as sentences for people."""
        ...

    @property
    def problem(self) -> str:
        """Why nothing can be done at present, as a node's condition says it; empty: all is well."""
        ...

    async def adopt(self) -> None:
        """Find what is there from before; call it first."""
        ...

    async def run(self) -> None:
        """Notice what happens behind our back, until cancelled."""
        ...

    def close(self) -> None:
        """Stop watching; containers run on."""
        ...

    def subscribe(self, changed: Callable[[ContainerStatus], None]) -> None:
        """Call that whenever a container has ended."""
        ...

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        """Call that with the uid of a pod whose sandbox is lost: its process has died, or somebody has stopped it."""
        ...

    async def create_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """One that is lost is replaced; what ran in it must have ended, and is known until it is removed."""
        ...

    def has_sandbox(self, uid: str) -> bool:
        """Whether the pod has one that is not lost."""
        ...

    async def remove_sandbox(self, uid: str) -> None:
        """With all of its containers, whatever state they are in."""
        ...

    def sandboxes(self) -> Sequence[Sandbox]:
        """With those that are lost."""
        ...

    async def all_sandboxes(self) -> Sequence[Sandbox]:
        """With those that nobody has asked for: a runtime may finish what an agent that has ended had begun."""
        ...

    async def create(self, spec: ContainerSpec) -> str:
        """Make everything ready to start it: its id. CannotStart where its program cannot be."""
        ...

    async def start(self, id_: str) -> None: ...

    async def signal(self, id_: str, number: int) -> None:
        """Send it to the first process; where that is SIGKILL, to all of them."""
        ...

    async def remove(self, id_: str) -> None: ...

    def containers(self) -> Sequence[ContainerStatus]: ...

    def status(self, id_: str) -> ContainerStatus | None: ...

    async def update(self, id_: str, resources: ContainerValues) -> None:
        """Give a running container other limits; RuntimeFailure where the kernel refuses one."""
        ...

    async def run_on(self, id_: str, cpus: str) -> None:
        """Have a running container on these CPUs alone (`0-3,8`); RuntimeFailure where that cannot be."""
        ...

    async def run_in(self, id_: str, argv: Sequence[str], seconds: float) -> Executed:
        """Run a command to its end; TimeoutError if it takes longer."""
        ...

    async def exec(self, id_: str, argv: Sequence[str], wanted: Wanted) -> ProcessStreams:
        """Run a command whose streams somebody reads and writes; OSError if that cannot be."""
        ...

    async def attach(self, id_: str, wanted: Wanted) -> ProcessStreams:
        """The streams of the container's own process; OSError if it has ended."""
        ...

    async def reopen_log(self, id_: str) -> None:
        """Begin a new file at the path of its log, soon; OSError if it has ended."""
        ...

    def writable_layer(self, id_: str) -> Path:
        """Where on this machine lies what the container writes to its root file system."""
        ...

    def last_words(self, id_: str, limit: int) -> bytes:
        """The end of what a container has written to its termination message path."""
        ...
