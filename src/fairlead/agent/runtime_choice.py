"""Which runtime the containers of a node have: conmon and crun, or whatever listens behind CRI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.runtimes.base import Runtime
from fairlead.agent.runtimes.oci.keeper import find_programs
from fairlead.agent.runtimes.oci.runtime import OciRuntime

if TYPE_CHECKING:
    from fairlead.agent.runtimes.cri.client import Client
    from fairlead.agent.runtimes.cri.images import CriImages

#: A kubelet's default.
ENDPOINT: Final = "unix:///run/containerd/containerd.sock"


@dataclass(frozen=True, slots=True)
class Ground:
    """What a runtime stands on."""

    #: The folder of the agent.
    root: Path
    cgroups: Cgroups
    #: The cgroup of what looks after containers.
    keepers: str
    least_oom_score_adj: int


#: The runtime of a node, once its ground is known.
Runtimes = Callable[[Ground], Runtime]


def conmon(ground: Ground) -> Runtime:
    """RuntimeFailure says what to install."""
    return OciRuntime(ground.root, find_programs(), ground.cgroups, ground.keepers, ground.least_oom_score_adj)


def behind_cri(client: Client, images: CriImages) -> Runtimes:
    from fairlead.agent.runtimes.cri.runtime import CriRuntime  # gRPC is for those alone who use it

    return lambda ground: CriRuntime(ground.root, client, images, ground.cgroups, ground.least_oom_score_adj)
