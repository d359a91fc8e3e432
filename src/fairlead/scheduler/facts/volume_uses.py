"""Which claims and disks the pods on which nodes have: the facts behind VolumeRestrictions and NodeVolumeLimits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from fairlead.api.disks import Disk, DiskName
from fairlead.scheduler.requirements import VolumeClaim


class VolumeUses:
    """Each is counted as often as a volume of a pod names it."""

    def __init__(self) -> None:
        #: By claim: the volumes that name it, not the one that it was made for.
        self._of_claim: Counter[str] = Counter()
        self._claims_on: dict[int, Counter[str]] = {}
        #: Disk → row → how many share it there, and how many do not.
        self._of_disk: dict[DiskName, dict[int, tuple[int, int]]] = {}

    def count(self, row: int, claims: Iterable[VolumeClaim], disks: Iterable[Disk], sign: int) -> None:
        """A pod came (1) or went (-1)."""
        for claim in claims:
            _add(self._claims_on.setdefault(row, Counter()), claim.key, sign)
            if not claim.owner_key:
                _add(self._of_claim, claim.key, sign)
        if row in self._claims_on and not self._claims_on[row]:
            del self._claims_on[row]
        for disk in disks:
            for name in disk.names:
                self._count_disk(row, name, disk, sign)

    def _count_disk(self, row: int, name: DiskName, disk: Disk, sign: int) -> None:
        rows = self._of_disk.setdefault(name, {})
        shared, alone = rows.get(row, (0, 0))
        rows[row] = (shared + sign, alone) if disk.is_shared else (shared, alone + sign)
        if rows[row] == (0, 0):
            del rows[row]
        if not rows:
            del self._of_disk[name]

    def is_in_use(self, claim: str) -> bool:
        """Whether a volume of a pod on any node names the claim."""
        return claim in self._of_claim

    def claims_on(self, row: int) -> Collection[str]:
        """The claims of the pods on that node."""
        return self._claims_on.get(row, {}).keys()

    def clashes(self, disks: Iterable[Disk], rows: Collection[int]) -> set[int]:
        """Of the rows those where somebody has one of these disks and it cannot be shared, and maybe others."""
        found = set[int]()
        for disk in disks:
            for name in disk.names:
                users = self._of_disk.get(name, {})
                for row in rows if len(rows) < len(users) else users:
                    shared, alone = users.get(row, (0, 0))
                    if alone or (shared and not disk.is_shared):
                        found.add(row)
        return found


def _add(counts: Counter[str], key: str, sign: int) -> None:
    counts[key] += sign
    if not counts[key]:
        del counts[key]
