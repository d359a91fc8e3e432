"""What would help a pod whose volumes keep it from nodes, in words, for `fairlead why`."""

from __future__ import annotations

from collections import Counter

from fairlead.api.disks import clash
from fairlead.scheduler.plugins.node.volume_restrictions import claims_of_one_pod
from fairlead.scheduler.plugins.node.volume_zone import zones_of
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot


def about_users(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    """Whose end would free what one pod alone may have."""
    own = set(claims_of_one_pod(requirements, snapshot))
    users = [
        placed.key
        for row in snapshot.rows().tolist()
        for placed in snapshot.pods_on(row)
        if any(claim.key in own and not claim.owner_key for claim in placed.requirements.claims)
        or clash(requirements.disks, placed.requirements.disks)
    ]
    return f"the end of {', '.join(sorted(users))}"


def about_limits(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    """What these nodes can have at most, and how much the pod brings along."""
    volumes = {snapshot.volumes.attachable(claim.key) for claim in requirements.claims}
    more, most = Counter(volume[0] for volume in volumes if volume is not None), Counter[str]()
    for name in nodes:
        most |= Counter(snapshot.attach_limits.of_node(name))
    limits = [f"{driver}: wants {more[driver]}, a node can have {most[driver]} in all" for driver in sorted(more)]
    return f"fewer volumes on one of these nodes ({'; '.join(limits)})"


def about_zones(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    """Where the volumes are."""
    wanted = set[str]()
    for claim in requirements.claims:
        known = snapshot.volumes.claims.get(claim.key)
        volume = snapshot.volumes.volumes.get(known.spec.volume_name) if known is not None else None
        if volume is not None:
            wanted |= {f"{label}={' or '.join(zones)}" for label, zones in zones_of(volume).items()}
    return f"a node with {', '.join(sorted(wanted))}"
