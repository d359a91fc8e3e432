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


#: Fairlead's own components, which come in through no listener.
INTERNAL_USER: Final = User("system:admin", ("system:masters",))
