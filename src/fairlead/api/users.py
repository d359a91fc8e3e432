"""Who makes a request, as authentication tells it (k8s.io/apiserver, authentication/user)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. The loopback identity of Fairlead's own components is in `system:masters`."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


_MASTERS: Final = ("system:masters",)
#: Fairlead itself, for whatever has no component of its own; nobody comes in through a listener as this.
INTERNAL_USER: Final = User("system:admin", _MASTERS)
#: The components that run beside the API server in one process, by the names that kube-apiserver's roles know.
SCHEDULER_USER: Final = User("system:kube-scheduler", _MASTERS)
CONTROLLERS_USER: Final = User("system:kube-controller-manager", _MASTERS)
NODES_USER: Final = User("system:node", (*_MASTERS, "system:nodes"))
ARBITRATOR_USER: Final = User("system:fairlead:arbitrator", _MASTERS)
