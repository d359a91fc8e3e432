"""What a DELETE does to an object: remove it, mark it, or nothing if its deletion is under way.

Finalizers, grace periods and propagation policies interact; deciding is a pure function here, so that the
registry only has to carry it out. Source: apiserver `registry/rest/delete.go` and `registry/generic/registry/store.go`.

    live ──▶ marked (deletionTimestamp; waits for finalizers, a node agent, a namespace's content) ──▶ removed
"""

from __future__ import annotations

from enum import Enum, auto

from fairlead.api.errors import BadRequest, Conflict
from fairlead.api.fields import Errors
from fairlead.api.names import FOREGROUND, ORPHAN
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions
from fairlead.golang.numbers import parse_bool, parse_int
from fairlead.kinds.strategy import Strategy
from fairlead.runtime.clock import parse_timestamp, timestamp

PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")


class Outcome(Enum):
    """What is left to do with the object that `decide` was given."""

    REMOVE = auto()  # take it out of the store
    MARK_AND_REMOVE = auto()  # write it, so that watchers see the mark, then take it out
    MARK = auto()  # write it and wait
    PENDING = auto()  # its deletion is under way: nothing to do


def check_preconditions(obj: Obj, row: Resource, options: DeleteOptions) -> None:
    """Raise `Conflict` unless the object is the one that the client means; upstream names its kind here."""
    meta = metadata(obj)
    uid, version = options.precondition_uid, options.precondition_resource_version
    advice = "The object might have been deleted and then recreated"
    if uid is not None and uid != meta.get("uid"):
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({meta.get('uid')}). {advice}"
        raise Conflict.of(row.kind, meta["name"], why, row.group)
    if version is not None and version != meta.get("resourceVersion"):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({meta.get('resourceVersion')}). The object might have been modified"
        )
        raise Conflict.of(row.kind, meta["name"], why, row.group)


def decide(obj: Obj, strategy: Strategy, options: DeleteOptions, now: float) -> Outcome:
    """Change the object as its deletion demands and say what is left to do."""
    meta = metadata(obj)
    grace_seconds = options.grace_period_seconds
    if grace_seconds is not None and grace_seconds < 0:
        grace_seconds = 1
    graceful = False
    if strategy.deletes_gracefully:
        if not meta.get("deletionTimestamp"):
            _mark(meta, strategy.grace_period_seconds(obj, grace_seconds), now)
            graceful = True
        elif meta.get("deletionGracePeriodSeconds"):
            if not _shortens(meta, grace_seconds, now):
                return Outcome.PENDING
            graceful = True
        # marked with grace 0 and still there: the server stopped before the removal; go on with it
    finalizers = _finalizers(meta, options.propagation_policy, strategy)
    changed = set(finalizers) != set(meta.get("finalizers", ()))
    if changed and finalizers:
        meta["finalizers"] = finalizers
    elif changed:
        meta.pop("finalizers", None)
    held = bool(finalizers) or strategy.holds_deletion(obj)
    if not graceful and not held:
        return Outcome.REMOVE
    if not meta.get("deletionTimestamp"):
        _mark(meta, 0, now)
        strategy.mark_deleted(obj)
    if held or meta.get("deletionGracePeriodSeconds", 0) > 0:
        return Outcome.MARK
    return Outcome.MARK_AND_REMOVE


def is_finished(obj: Obj, strategy: Strategy) -> bool:
    """Whether nothing keeps a marked object any more: no finalizer, no grace period."""
    meta = metadata(obj)
    return bool(
        meta.get("deletionTimestamp")
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not strategy.holds_deletion(obj)
    )


def _shortens(meta: Obj, grace_seconds: int | None, now: float) -> bool:
    """Shorten the grace period of a deletion under way, to end now at the earliest; whether it became shorter."""
    current = meta["deletionGracePeriodSeconds"]
    if grace_seconds is None or grace_seconds >= current:
        return False
    ends = parse_timestamp(meta["deletionTimestamp"]) - _wrapped(current) + _wrapped(grace_seconds)
    if ends < now:
        ends, grace_seconds = now, min(grace_seconds, 1)  # 1: whoever terminates it (a node agent) still has to finish
    meta["deletionTimestamp"] = timestamp(ends)
    meta["deletionGracePeriodSeconds"] = grace_seconds
    return True


def _mark(meta: Obj, grace_seconds: int, now: float) -> None:
    meta["deletionTimestamp"] = timestamp(now + _wrapped(grace_seconds))
    meta["deletionGracePeriodSeconds"] = grace_seconds
    if meta.get("generation", 0) > 0:
        meta["generation"] += 1


def _wrapped(seconds: int) -> float:
    """Seconds as Go adds them to a time: nanoseconds in 64 bits, so that 292 years and more wrap around."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 1e9


def _finalizers(meta: Obj, policy: str | None, strategy: Strategy) -> list[str]:
    """The finalizers with the garbage collector's own added or removed as the policy says."""
    current: list[str] = meta.get("finalizers", [])
    if not strategy.is_collected:
        policy = "Background"
    if policy is None:
        decided = not strategy.orphans_by_default or ORPHAN in current or FOREGROUND in current
        return current if decided else [*current, ORPHAN]
    kept = [finalizer for finalizer in current if finalizer not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        return [*kept, ORPHAN]
    if policy == "Foreground":
        return [*kept, FOREGROUND]
    return kept


def options_of(body: Obj, query: dict[str, str]) -> DeleteOptions:
    """The options of a DELETE from its body, or from the query where it has no body."""
    errors = Errors()
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = orphan_of(body, query)
    if policy is not None and orphan is not None:
        errors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
    _check_policy(policy, errors)
    dry_run = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    if any(stage != "All" for stage in dry_run):
        errors.not_supported("dryRun", dry_run, ["All"])
    if orphan is not None and policy is None:
        policy = "Orphan" if orphan else "Background"
    errors.raise_invalid("DeleteOptions", "", "meta.k8s.io")
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = _seconds(query["gracePeriodSeconds"])
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=grace,
        propagation_policy=policy,
        precondition_uid=preconditions.get("uid"),
        precondition_resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(dry_run),
    )


def check_options(options: DeleteOptions) -> None:
    """Refuse contradictory options."""
    errors = Errors()
    _check_policy(options.propagation_policy, errors)
    errors.raise_invalid("DeleteOptions", "", "meta.k8s.io")


def _check_policy(policy: str | None, errors: Errors) -> None:
    if policy is not None and policy not in PROPAGATION_POLICIES:
        errors.not_supported("propagationPolicy", policy, [*PROPAGATION_POLICIES, "nil"], sort=False)


def orphan_of(body: Obj, query: dict[str, str]) -> bool | None:
    """`orphanDependents`, the older spelling of a policy; None if it is not given."""
    orphan: bool | None = body.get("orphanDependents")
    if orphan is None and query.get("orphanDependents"):
        return parse_bool(query["orphanDependents"])
    return orphan


def _seconds(text: str) -> int:
    try:
        return parse_int(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
