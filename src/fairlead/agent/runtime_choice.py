"""Which runtime a node's containers have: conmon and crun, whatever listens behind CRI, or processes of a user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.images_seam import Images
from fairlead.agent.runtimes import overlay
from fairlead.agent.runtimes.base import Runtime, RuntimeFailure
from fairlead.agent.runtimes.oci.keeper import find_programs
from fairlead.agent.runtimes.oci.maker import ConmonMaker
from fairlead.agent.runtimes.oci.runtime import OciRuntime
from fairlead.agent.runtimes.process import user_namespace
from fairlead.agent.runtimes.process.maker import ProcessMaker
from fairlead.agent.runtimes.process.process_groups import ProcessGroups

#: The file in the folder of the agent that says where the runtime listens which has pods of ours.
ENDPOINT: Final = "cri-endpoint"


class Ground(msgspec.Struct, frozen=True):
    """What a runtime stands on."""

    #: The folder of the agent.
    root: Path
    cgroups: Cgroups
    #: The cgroup of what looks after containers.
    keepers: str
    least_oom_score_adj: int
    #: Where a runtime behind CRI listens.
    endpoint: str


class Containers(NamedTuple):
    """A runtime, and the images that it makes containers of."""

    runtime: Runtime
    images: Images


#: The runtime of a node, once its ground is known. RuntimeFailure says what is missing.
Runtimes = Callable[[Ground], Containers]


def conmon(images: Images) -> Runtimes:
    def runtime(ground: Ground) -> Containers:
        _check_name(ground.root)
        if (file := ground.root / ENDPOINT).exists():
            raise _in_other_hands(ground.root, f"the container runtime at {file.read_text().strip()}")
        if user_namespace.is_here(ground.root):
            raise _in_other_hands(ground.root, "the runtime of a user without root")
        least, cgroups = ground.least_oom_score_adj, ground.cgroups
        programs = find_programs()
        makers = {
            name: ConmonMaker(ground.root, programs, runtime, cgroups, ground.keepers, least)
            for name, runtime in programs.runtimes.items()
        }
        usual = next(iter(makers.values()))
        return Containers(OciRuntime(ground.root, usual, cgroups, least, makers), images)

    return runtime


def processes(images: Images) -> Runtimes:
    """In the user namespace of the node, which has been entered."""

    def runtime(ground: Ground) -> Containers:
        _check_name(ground.root)
        least, cgroups = ground.least_oom_score_adj, ground.cgroups
        assert isinstance(cgroups, ProcessGroups)  # which whoever chooses this runtime has put in the kernel's place
        maker = ProcessMaker(ground.root, cgroups, least)
        return Containers(OciRuntime(ground.root, maker, cgroups, least), images)

    return runtime


def enter_user_namespace(root: Path) -> None:
    """That of a node without root, before anything else: only while there are no other threads. RuntimeFailure."""
    if not user_namespace.is_here(root) and _has_pods(root):
        raise _in_other_hands(root, "another runtime")
    user_namespace.enter(root)


def behind_cri(ground: Ground) -> Containers:
    from fairlead.agent.grpc.client import Client
    from fairlead.agent.runtimes.cri.images import CriImages
    from fairlead.agent.runtimes.cri.runtime import CriRuntime

    if any((ground.root / "sandboxes").glob("*")):
        raise _in_other_hands(ground.root, "conmon, or the runtime of a user without root,")
    try:
        client = Client(ground.endpoint)
    except ValueError as error:
        raise RuntimeFailure(str(error)) from None
    images = CriImages(client)
    return Containers(CriRuntime(ground.root, client, images, ground.cgroups, ground.least_oom_score_adj), images)


def _check_name(root: Path) -> None:
    """At the start, not with each container."""
    if not overlay.can_be_told(root):
        why = "a name with a comma, a quote or a backslash cannot be told to the kernel"
        raise RuntimeFailure(f"{root}: no container can be mounted from there, for {why}")


def _has_pods(root: Path) -> bool:
    return (root / ENDPOINT).exists() or any((root / "sandboxes").glob("*"))


def _in_other_hands(root: Path, whose: str) -> RuntimeFailure:
    """Nobody would look after them any more."""
    return RuntimeFailure(f"{whose} may run pods of {root}: go on with that runtime, or run fairlead node reset first")
