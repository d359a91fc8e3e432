"""What expressions cost: `python -m benchmarks.cel`.

Rules as people write them, compiled once and evaluated over an object as it was decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.arguments import parser
from fairlead.cel.environment import Environment
from fairlead.cel.schema import declared
from fairlead.cel.sizes import place_of

SCHEMA = {
    "type": "object",
    "properties": {
        "minReplicas": {"type": "integer"},
        "replicas": {"type": "integer"},
        "maxReplicas": {"type": "integer"},
        "name": {"type": "string"},
        "ports": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        },
    },
}
VALUE = {
    "minReplicas": 1,
    "replicas": 3,
    "maxReplicas": 5,
    "name": "web",
    "ports": [{"name": f"p{port}", "port": port} for port in range(1, 11)],
}
RULES = {
    "one comparison": "self.replicas <= 5",
    "five terms": "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas && size(self.name) < 20",
    "a pattern": "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "ten items": "self.ports.all(p, p.port > 0 && p.name.startsWith('p'))",
}
ROUNDS = 20_000


def _each(call: Callable[[], object], rounds: int) -> float:
    """Seconds of CPU a call."""
    began = time.process_time()
    for _ in range(rounds):
        call()
    return (time.process_time() - began) / rounds


def main() -> None:
    type_ = declared(SCHEMA)
    assert type_ is not None
    environment = Environment({"self": type_})
    place = place_of(SCHEMA)
    assert place is not None
    print(f"{'rule':<16}{'compiled in':>14}{'estimated in':>14}{'evaluated in':>14}")
    for name, rule in RULES.items():
        program = environment.compile(rule)
        compiled = _each(lambda rule=rule: environment.compile(rule), 100)  # type: ignore[misc]
        estimated = _each(lambda program=program: program.estimated_cost(place), 100)  # type: ignore[misc]
        evaluated = _each(lambda program=program: program.evaluate({"self": VALUE}), ROUNDS)  # type: ignore[misc]
        print(f"{name:<16}{compiled * 1e3:>11.2f} ms{estimated * 1e6:>11.0f} us{evaluated * 1e6:>11.2f} us")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
