"""What would help a pod whose claims of devices keep it from nodes, in words, for `fairlead why`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fairlead.api.devices import ALL, AskedDevices, ResourceClaim
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot


def about_devices(requirements: PodRequirements, snapshot: Snapshot, nodes: list[str]) -> str:
    """What is asked for and not to be had there, or where what the pod has already can be reached."""
    wanted = list[str]()
    for named in requirements.device_claims:
        claim = snapshot.device_claims.get(named.key)
        if claim is not None and claim.status.allocation is None:
            wanted.append(f"{claim.metadata.name} ({', '.join(_asked(claim))})")
    for amount in requirements.device_amounts:
        if (found := snapshot.device_offers.class_of(amount.resource)) is not None:
            wanted.append(f"{amount.resource} ({amount.count} of class {found})")
    if wanted:
        return f"free devices for {'; '.join(dict.fromkeys(wanted))}"
    return "a node that reaches the devices of its claims"


def about_sharers(
    requirements: PodRequirements, others: Iterable[PodRequirements], snapshot: Snapshot
) -> Iterator[str]:
    """Of each claim without devices, how many of those that start with the pod go where its devices will be."""
    named = Counter(key for other in others for key in {claim.key for claim in other.device_claims})
    for key in dict.fromkeys(claim.key for claim in requirements.device_claims):
        claim = snapshot.device_claims.get(key)
        if named[key] and claim is not None and claim.status.allocation is None:
            together = f"{named[key]} of its group that share the claim"
            yield f"where it gets the devices of {claim.metadata.name}, {together} must fit as well"


def _asked(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests or ():
        ways = (request.exactly,) if request.exactly is not None else request.first_available or ()
        yield " or ".join(map(_way, ways))


def _way(asked: AskedDevices) -> str:
    many = "all" if asked.allocation_mode == ALL else str(asked.count)
    return f"{many} of class {asked.device_class_name}"
