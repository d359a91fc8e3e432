"""What the arbitrator's mathematics and its cycles cost: `python -m benchmarks.arbitrator` prints a table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from gmpy2 import mpq
from msgspec.structs import replace

from benchmarks import cycle
from benchmarks.arguments import parser
from fairlead.fairshare.claims import Claim
from fairlead.fairshare.shares import shares
from fairlead.fairshare.victims import VictimCandidate, choose_victims

RESOURCES = {"cpu": 64_000_000, "memory": 256 << 40, "gpu": 40_000}
ASKED_MS = {1_000: 100, 5_000: 1_000}
CYCLE_ASKED_MS = {"nothing changed": 20, "one namespace changed": 100}


def claims(count: int) -> list[Claim]:
    """Namespaces that together want three times what there is, some with guarantees, some with caps."""
    dice = random.Random(1)
    made = []
    for number in range(count):
        demand = {name: dice.randrange(1, 6 * total // count) for name, total in RESOURCES.items()}
        reserved = {name: amount // 8 for name, amount in demand.items()} if number % 5 == 0 else {}
        hard = {"cpu": demand["cpu"] // 2} if number % 7 == 0 else {}
        made.append(Claim(f"ns-{number:05}", demand, dice.randrange(1, 10), reserved, hard))
    return made


def of_two_sizes(claim: Claim) -> Claim:
    """As a namespace of two kinds of pods, one without gpus, and a bound for both together."""
    half = {name: mpq(claim.demand[name]) / 2 for name in ("cpu", "memory")}
    return replace(claim, parts=[half, {**half, "gpu": claim.demand["gpu"]}], hard={"cpu": half["cpu"]})


def holders(count: int) -> list[VictimCandidate]:
    """Pods of sixty-four sizes that began together."""
    dice = random.Random(1)
    sizes = range(1, 9)
    return [
        VictimCandidate(f"pod-{number:05}", {"cpu": dice.choice(sizes), "memory": dice.choice(sizes)})
        for number in range(count)
    ]


def milliseconds(work: Callable[[], object], times: int = 3) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return min(took)


def main() -> None:
    print(f"{'what':<40} {'measured':>12} {'asked':>10}")
    for count, asked in ASKED_MS.items():
        took = milliseconds(partial(shares, claims(count), RESOURCES))
        print(f"{f'{count:,} namespaces':<40} {took:>9,.0f} ms {asked:>7,} ms")
    of_mixed = partial(shares, [of_two_sizes(one) for one in claims(5_000)], RESOURCES)
    print(f"{'5,000 of two pod sizes and with a bound':<40} {milliseconds(of_mixed):>9,.0f} ms")
    among_pods = partial(choose_victims, holders(50_000), {"cpu": 100_000, "memory": 150_000}, RESOURCES)
    print(f"{'victims among 50,000 equal pods':<40} {milliseconds(among_pods):>9,.0f} ms")
    print(f"a cycle over {cycle.NODES:,} nodes and {cycle.PODS:,} pods")
    for what, milli in cycle.measured().items():
        print(f"  {what:<38} {milli:>9,.1f} ms {CYCLE_ASKED_MS[what]:>7,} ms")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
