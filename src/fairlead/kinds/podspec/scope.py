"""What the rules of a container need to know about the pod around it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.objects import Obj


class PodScope(msgspec.Struct, frozen=True):
    """The pod of the container that is being checked."""

    #: The faultless volumes by name: a mount of any other is not found.
    volumes: Mapping[str, Obj]
    claim_names: frozenset[str]
    grace_seconds: int | None
    restart_policy: str
    shares_host_users: bool
    os: str
    #: Whether a resize may restart init containers that are no sidecars; only where the pod had such before.
    resize_restarts_init: bool = False
