"""Lease: who holds something, since when, and for how long.

Sources: pkg/apis/coordination/validation, pkg/registry/coordination/lease (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import Strategy

ELECTION_STRATEGIES: Final = ("OldestEmulationVersion",)


class LeaseStrategy(Strategy):
    allows_create_on_update = True
    allows_unconditional_update = False

    def prepare_create(self, obj: Obj) -> None:
        _drop_election(obj["spec"], {})

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        _drop_election(obj["spec"], old["spec"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        if transitions is not None and transitions < 0:
            errors.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
        strategy = spec.get("strategy")
        if strategy is not None:
            _validate_strategy(strategy, errors)
        if spec.get("preferredHolder") and not strategy:
            errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _drop_election(spec: Obj, was: Obj) -> None:
    """Leaders are not elected by the server (CoordinatedLeaderElection is off): such fields only stay."""
    for field in ("strategy", "preferredHolder"):
        if was.get(field) is None:
            spec.pop(field, None)


def _validate_strategy(strategy: str, errors: Errors) -> None:
    """Kubernetes' own names are known; others are qualified."""
    if "/" in strategy:
        check(errors, "spec.strategy.strategy", strategy, names.qualified_name)
    elif strategy not in ELECTION_STRATEGIES:
        errors.not_supported("spec.strategy.strategy", strategy, ELECTION_STRATEGIES)
