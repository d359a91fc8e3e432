"""Shares by an independent solver: lexicographic max-min by one linear program after the other.

Of all divisions the fair one has the largest smallest level (dominant share by weight), of those the largest second
smallest, and so on. Raise everybody's level as far as a linear program can, find who cannot be raised any further,
hold those where they are, and go on with the rest: nothing of that knows of moments or rates.

Where pods need several resources at once, it is asked only if all guarantees fit, with what they carry; of resources
apart, guarantees that do not fit are cut to what max-min makes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gmpy2 import mpq
from scipy.optimize import linprog

from fairlead.fairshare.claims import Amount, Amounts, Claim, Model, Surplus

#: A level that cannot be raised by more than this cannot be raised.
STUCK = 1e-7
#: By how much less is also what was reached: numbers are rounded.
SLACK = 1e-9
ROUNDED = mpq(1, 10**9)
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class TooLittleError(Exception):
    """Not all guarantees fit, and pods need several resources at once."""


class NoAnswerError(Exception):
    """The solver lost its way among numbers that are almost equal."""


@dataclass(frozen=True, eq=False)
class Row:
    """What grows together, to the linear program: its variable is a dominant share."""

    claim: Claim
    #: Of every resource, the part of the capacity that it uses at a dominant share of 1.
    usage: dict[str, mpq]
    start: mpq
    end: mpq
    weight: mpq

    def level(self, share: float, surplus: Surplus) -> float:
        return (share - float(self.start if surplus is Surplus.REST else 0)) / float(self.weight)

    def share(self, level: float, surplus: Surplus) -> float:
        return level * float(self.weight) + float(self.start if surplus is Surplus.REST else 0)


def end_of(claim: Claim, vector: Mapping[str, mpq]) -> mpq:
    """All that is demanded, or what the lowest cap allows."""
    return min([mpq(1), *(mpq(claim.hard[name]) / amount for name, amount in vector.items() if name in claim.hard)])


def rising(vectors: Sequence[Mapping[str, mpq]], limits: Mapping[str, mpq]) -> list[mpq]:
    """How far all come that rise at one pace until they are whole or something that they need is used up."""
    fixed: dict[int, mpq] = {}
    while len(fixed) < len(vectors):
        free = [number for number in range(len(vectors)) if number not in fixed]
        reach = {number: mpq(1) for number in free}
        for name, limit in limits.items():
            pace = sum(vectors[number].get(name, mpq(0)) for number in free)
            gone = sum(vectors[number].get(name, mpq(0)) * position for number, position in fixed.items())
            for number in free:
                if vectors[number].get(name):
                    reach[number] = min(reach[number], (limit - gone) / pace)
        lowest = min(reach.values())
        fixed |= {number: lowest for number in free if reach[number] == lowest}
    return [fixed[number] for number in range(len(vectors))]


class Programs:
    """One problem; resources in parts of the capacity."""

    def __init__(self, claims: Sequence[Claim], capacity: Mapping[str, int], surplus: Surplus) -> None:
        self._all, self._capacity, self._surplus = claims, capacity, surplus
        #: Those that are served already, or now.
        self._claims: list[Claim] = []
        self._rows: list[Row] = []
        self._shares: dict[Row, float] = {}
        #: What of its guarantee each can be given, by name and resource.
        self._floors: dict[tuple[str, str], mpq] = {}
        self.are_guarantees_kept = True

    def deserved(self) -> dict[str, dict[str, float]]:
        """Of every resource that there is any of, the part that each has of it."""
        for is_unlimited in (True, False):
            claims = [claim for claim in self._all if claim.is_unlimited is is_unlimited]
            for name in self._capacity:
                self._floors |= {(consumer, name): part for consumer, part in self._guarantees(claims, name).items()}
            rows = [row for claim in claims for row in self._rows_of(claim)]
            self._check(claims, rows)
            self._claims += claims
            self._rows += rows
            for is_weightless in (False, True):
                rising = [row for row in rows if (row.claim.weight == 0) is is_weightless]
                self._shares |= self._lexicographic(rising)
        return {
            claim.name: {name: max(self._used(claim, name), float(self._held(claim, name))) for name in self._real()}
            for claim in self._claims
        }

    def _real(self) -> list[str]:
        return [name for name, amount in self._capacity.items() if amount]

    def _part(self, amount: Amount, name: str) -> mpq:
        return mpq(amount) / self._capacity[name]

    def _used(self, claim: Claim, name: str) -> float:
        return sum(self._shares[row] * float(row.usage[name]) for row in self._rows if row.claim is claim)

    # --- claims -----------------------------------------------------------------------------------------------------

    def _vectors(self, claim: Claim) -> list[dict[str, mpq]]:
        """What each of its parts needs, of resources that are known."""

        def known(amounts: Amounts) -> dict[str, mpq]:
            return {name: mpq(amount) for name, amount in amounts.items() if amount and name in self._capacity}

        demand = known(claim.demand)
        if claim.parts:
            vectors = [known(part) for part in claim.parts]
        else:
            vectors = [demand] if claim.model is Model.TOGETHER else [{name: demand[name]} for name in demand]
        return [vector for vector in vectors if vector]

    def _rows_of(self, claim: Claim) -> list[Row]:
        vectors = self._vectors(claim)
        demand = {name: sum((vector.get(name, mpq(0)) for vector in vectors), mpq(0)) for name in self._real()}
        full = max((self._part(amount, name) for name, amount in demand.items()), default=mpq(0))
        goals = self._goals(claim, vectors, demand) if full else []
        return [
            self._row(claim, vector, goal, full)
            for vector, goal in zip(vectors, goals, strict=False)
            if all(self._capacity[name] for name in vector)
        ]

    def _goals(self, claim: Claim, vectors: Sequence[Mapping[str, mpq]], demand: Mapping[str, mpq]) -> list[mpq]:
        """Up to where its guarantees bring each of its parts; if that is more than a cap allows, all have less."""
        caps = {name: mpq(amount) for name, amount in claim.hard.items()} if claim.parts else {}
        goals = [mpq(0)] * len(vectors)
        for resource in demand:
            limits = caps | {resource: self._floors[claim.name, resource] * self._capacity[resource]}
            taking = [number for number, vector in enumerate(vectors) if resource in vector]
            for number, position in zip(taking, rising([vectors[index] for index in taking], limits), strict=True):
                goals[number] = max(goals[number], position)
        needed = {
            name: sum(goal * vector.get(name, 0) for goal, vector in zip(goals, vectors, strict=True)) for name in caps
        }
        factors = {name: min(cap / needed[name], mpq(1)) for name, cap in caps.items() if needed[name]}
        return [
            goal * min((factors[name] for name in vector if name in factors), default=mpq(1))
            for goal, vector in zip(goals, vectors, strict=True)
        ]

    def _row(self, claim: Claim, vector: Mapping[str, mpq], goal: mpq, full: mpq) -> Row:
        end = end_of(claim, vector)
        usage = {name: self._part(vector.get(name, 0), name) / full for name in self._real()}
        return Row(claim, usage, min(goal, end) * full, end * full, mpq(claim.weight or 1))

    def _wanted(self, claim: Claim, name: str) -> mpq:
        """What it is guaranteed of what it may and wants to have."""
        vectors = self._vectors(claim)
        reserved = mpq(min(claim.reserved.get(name, 0), claim.hard.get(name, claim.reserved.get(name, 0))))
        if not claim.lends:
            return reserved
        return min(reserved, sum((end_of(claim, vector) * vector.get(name, 0) for vector in vectors), mpq(0)))

    def _held(self, claim: Claim, name: str) -> mpq:
        return mpq(0) if claim.lends else self._floors[claim.name, name]

    def _taken(self, name: str) -> float:
        """What those before have of it."""
        return sum(max(self._used(claim, name), float(self._held(claim, name))) for claim in self._claims)

    def _guarantees(self, claims: Sequence[Claim], name: str) -> dict[str, mpq]:
        """Everybody's guarantee, or as much of it as there is: the same part of it for all who do not want less."""
        wanted = {claim.name: self._wanted(claim, name) for claim in claims}
        if not any(wanted.values()):
            return wanted
        left = max(1 - mpq(str(self._taken(name))), mpq(0)) if self._capacity[name] else mpq(0)
        if left and sum(self._part(demanded, name) for demanded in wanted.values()) <= left + ROUNDED:
            return {consumer: self._part(amount, name) for consumer, amount in wanted.items()}
        self.are_guarantees_kept = False
        floors: dict[str, mpq] = {}
        asking = sorted(
            (claim for claim in claims), key=lambda asker: wanted[asker.name] / (asker.reserved.get(name) or 1)
        )
        for place, claim in enumerate(asking):  # who wants the least part of its guarantee first
            weight = sum(asker.reserved.get(name, 0) for asker in asking[place:] if wanted[asker.name])
            part = left * claim.reserved.get(name, 0) / weight if wanted[claim.name] else mpq(0)
            floors[claim.name] = min(part, self._part(wanted[claim.name], name)) if part else part
            left -= floors[claim.name]
        return floors

    def _check(self, claims: Sequence[Claim], rows: Sequence[Row]) -> None:
        """Of pods that need several resources at once all guarantees, and what they carry, must fit."""
        if all(sum(1 for part in row.usage.values() if part) == 1 for row in rows):
            return
        if not self.are_guarantees_kept:
            raise TooLittleError
        for name in self._real():
            started = {claim.name: mpq(0) for claim in claims}
            for row in rows:
                started[row.claim.name] += row.start * row.usage[name]
            needed = sum(max(self._floors[key, name], started[key]) for key in started)
            if needed and self._taken(name) + float(needed) > 1 + SLACK:
                raise TooLittleError

    # --- programs ---------------------------------------------------------------------------------------------------

    def _lexicographic(self, rising: Sequence[Row]) -> dict[Row, float]:
        """Everybody's dominant share in the fair division, if those that do not rise stay where they are."""
        fixed: dict[Row, float] = {}
        while together := [row for row in rising if row not in fixed]:
            common = self._highest(fixed, rising, together=together)
            reached = dict.fromkeys(together, common) | fixed
            most = {row: self._highest(reached, rising, alone=row) for row in together}
            stuck = [row for row, level in most.items() if level <= common + STUCK]
            fixed |= dict.fromkeys(stuck or [min(most, key=most.__getitem__)], common)
        return {row: row.share(level, self._surplus) for row, level in fixed.items()}

    def _highest(
        self,
        reached: Mapping[Row, float],
        rising: Sequence[Row],
        alone: Row | None = None,
        together: Collection[Row] = (),
    ) -> float:
        """How high one can rise, or several together, if nobody has less than was reached."""
        rows, claims, names = self._rows, self._claims, self._real()
        # The variables: every row's share, what every claim takes of every resource, and the common level.
        width = len(rows) + len(claims) * len(names) + 1
        takes = {
            (claim.name, name): len(rows) + number * len(names) + place
            for number, claim in enumerate(claims)
            for place, name in enumerate(names)
        }
        less: list[list[float]] = []
        limits: list[float] = []

        def at_most(limit: float, terms: Mapping[int, float]) -> None:
            less.append([terms.get(number, 0.0) for number in range(width)])
            limits.append(limit)

        for name in names:
            at_most(1.0 + SLACK, {takes[claim.name, name]: 1.0 for claim in claims})
            for claim in claims:
                own = {number: float(row.usage[name]) for number, row in enumerate(rows) if row.claim is claim}
                at_most(0.0, own | {takes[claim.name, name]: -1.0})
                if claim.parts and name in claim.hard:
                    at_most(float(self._part(claim.hard[name], name)), own)
        goal = [0.0] * width
        bounds: list[tuple[float, float | None]] = []
        for number, row in enumerate(rows):
            if row not in rising:
                most = self._shares.get(row, float(row.start))
                least = most - STUCK
            else:
                least, most = float(row.start), float(row.end)
                if row in reached:
                    least = max(least, row.share(reached[row] - SLACK, self._surplus))
            bounds.append((min(least, most), most))
            if row in together:  # its level is at least the common one
                base = row.share(0.0, self._surplus)
                at_most(-base, {number: -1.0, width - 1: float(row.weight)})
            if row is alone:
                goal[number] = -1.0
        bounds += [(float(self._held(claim, name)), None) for claim in claims for name in names]
        if alone is None:
            goal[-1] = -1.0
        answer = linprog(goal, A_ub=less, b_ub=limits, bounds=[*bounds, (0.0, None)], method="highs", options=EXACT)
        if not answer.success:
            raise NoAnswerError(answer.message)
        return -float(answer.fun) if alone is None else alone.level(-float(answer.fun), self._surplus)
