"""What the arbitrator's mathematics costs: `python -m benchmarks.arbitrator` prints a table."""

from __future__ import annotations

import random
import time

from fairlead.fairshare.claims import Claim
from fairlead.fairshare.shares import shares

RESOURCES = {"cpu": 64_000_000, "memory": 256 << 40, "gpu": 40_000}
ASKED_MS = {1_000: 100, 5_000: 1_000}


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


def main() -> None:
    print(f"{'namespaces':>10} {'measured':>12} {'asked':>10}")
    for count, asked in ASKED_MS.items():
        some = claims(count)
        took = []
        for _ in range(3):
            began = time.perf_counter()
            shares(some, RESOURCES)
            took.append((time.perf_counter() - began) * 1000)
        print(f"{count:>10,} {min(took):>9,.0f} ms {asked:>7,} ms")


if __name__ == "__main__":
    main()
