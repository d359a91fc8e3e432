"""What a DELETE does, as tables: finalizers, grace periods, propagation policies, and deletions under way."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS
from fairlead.api.errors import BadRequest, Conflict, Invalid
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.kinds.strategy import Strategy
from fairlead.runtime.clock import parse_timestamp, timestamp
from fairlead.server.storage.deletion import Outcome, check_preconditions, decide, is_finished, options_of

NOW = 1_767_225_600.0
REMOVE, MARK, MARK_AND_REMOVE, PENDING = Outcome.REMOVE, Outcome.MARK, Outcome.MARK_AND_REMOVE, Outcome.PENDING


class Graceful(Strategy):
    """A kind whose deletions a node agent finishes; 30 s unless the client says otherwise."""

    deletes_gracefully = True

    def grace_period_seconds(self, obj: Obj, asked: int | None) -> int:
        return 30 if asked is None else asked


class Held(Strategy):
    """A kind that keeps its objects alive itself, as namespaces do."""

    def holds_deletion(self, obj: Obj) -> bool:
        return bool(obj.get("held"))

    def mark_deleted(self, obj: Obj) -> None:
        obj["phase"] = "Terminating"


class Orphaning(Strategy):
    orphans_by_default = True


class Uncollected(Strategy):
    """A kind that the garbage collector leaves alone, as events."""

    is_collected = False


PLAIN, GRACEFUL, HELD, ORPHANING = Strategy(), Graceful(), Held(), Orphaning()


def thing(*finalizers: str, ends_in: float | None = None, grace: int = 0, **more: Any) -> Obj:
    """An object; `ends_in` says when a deletion under way ends."""
    meta: Obj = {"name": "x", "uid": "u", "resourceVersion": "7"}
    if finalizers:
        meta["finalizers"] = list(finalizers)
    if ends_in is not None:
        meta |= {"deletionTimestamp": timestamp(NOW + ends_in), "deletionGracePeriodSeconds": grace}
    return {"metadata": meta} | more


def marked(obj: Obj) -> tuple[float, int] | None:
    """In how many seconds the deletion ends, and its grace period; None if there is no mark."""
    meta = metadata(obj)
    if "deletionTimestamp" not in meta:
        return None
    return parse_timestamp(meta["deletionTimestamp"]) - NOW, meta["deletionGracePeriodSeconds"]


@pytest.mark.parametrize(
    ("strategy", "obj", "grace", "outcome", "mark"),
    [
        pytest.param(PLAIN, thing(), None, REMOVE, None, id="an ordinary object goes at once"),
        pytest.param(PLAIN, thing(), 60, REMOVE, None, id="whatever grace is asked for"),
        pytest.param(PLAIN, thing("f"), 60, MARK, (0, 0), id="a finalizer keeps it, without grace"),
        pytest.param(PLAIN, thing("f", ends_in=-9), None, MARK, (-9, 0), id="a second deletion changes nothing"),
        pytest.param(GRACEFUL, thing(), None, MARK, (30, 30), id="a graceful one waits as long as its kind says"),
        pytest.param(GRACEFUL, thing(), 5, MARK, (5, 5), id="or as the client says"),
        pytest.param(GRACEFUL, thing(), 0, MARK_AND_REMOVE, (0, 0), id="at once, but watchers see the mark first"),
        pytest.param(GRACEFUL, thing(), -3, MARK, (1, 1), id="a negative period is one second"),
        pytest.param(GRACEFUL, thing("f"), 0, MARK, (0, 0), id="a finalizer keeps a graceful one too"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), None, PENDING, (20, 30), id="under way: left alone"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), 40, PENDING, (20, 30), id="never made longer"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), 30, PENDING, (20, 30), id="nor the same again"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), 15, MARK, (5, 15), id="shorter counts from its beginning"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), 5, MARK, (0, 1), id="but does not end in the past"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), -1, MARK, (0, 1), id="a negative one shortens to a second"),
        pytest.param(GRACEFUL, thing(ends_in=20, grace=30), 0, MARK_AND_REMOVE, (0, 0), id="force ends it now"),
        pytest.param(GRACEFUL, thing("f", ends_in=20, grace=30), 0, MARK, (0, 0), id="force spares finalizers"),
        pytest.param(GRACEFUL, thing(ends_in=-9), None, REMOVE, (-9, 0), id="a crash left it marked: finish"),
        pytest.param(GRACEFUL, thing("f", ends_in=-9), 0, MARK, (-9, 0), id="marked, held by a finalizer: wait"),
        pytest.param(HELD, thing(held=True), None, MARK, (0, 0), id="a kind may hold its objects"),
        pytest.param(HELD, thing(), None, REMOVE, None, id="and let them go"),
    ],
)  # fmt: skip
def test_deletion(
    strategy: Strategy, obj: Obj, grace: int | None, outcome: Outcome, mark: tuple[float, int] | None
) -> None:
    """X-09."""
    assert decide(obj, strategy, DeleteOptions(grace_period_seconds=grace), NOW) is outcome
    if outcome is not REMOVE or mark:
        assert marked(obj) == mark


@pytest.mark.parametrize(
    ("before", "policy", "outcome", "after"),
    [
        ((), None, REMOVE, []),
        ((), "Background", REMOVE, []),
        ((), "Foreground", MARK, ["foregroundDeletion"]),
        ((), "Orphan", MARK, ["orphan"]),
        (("f",), None, MARK, ["f"]),
        (("f",), "Foreground", MARK, ["f", "foregroundDeletion"]),
        (("foregroundDeletion", "f"), "Orphan", MARK, ["f", "orphan"]),
        (("orphan",), "Background", REMOVE, []),
        (("orphan", "f"), "Background", MARK, ["f"]),
        (("orphan",), None, MARK, ["orphan"]),
        (("orphan", "f"), "Orphan", MARK, ["orphan", "f"]),
    ],
)
def test_propagation_policies_are_finalizers(
    before: tuple[str, ...], policy: str | None, outcome: Outcome, after: list[str]
) -> None:
    obj = thing(*before)
    assert decide(obj, PLAIN, DeleteOptions(propagation_policy=policy), NOW) is outcome
    assert metadata(obj).get("finalizers", []) == after


@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        ((), None, ["orphan"]),
        ((), "Background", []),
        ((), "Foreground", ["foregroundDeletion"]),
        (("foregroundDeletion",), None, ["foregroundDeletion"]),
    ],
)
def test_some_kinds_orphan_their_dependents_unless_told_otherwise(
    before: tuple[str, ...], policy: str | None, after: list[str]
) -> None:
    """Jobs and replication controllers, for old clients."""
    obj = thing(*before)
    decide(obj, ORPHANING, DeleteOptions(propagation_policy=policy), NOW)
    assert metadata(obj).get("finalizers", []) == after


@pytest.mark.parametrize("policy", [None, "Background", "Foreground", "Orphan"])
def test_nobody_waits_for_what_a_kind_might_own_that_owns_nothing(policy: str | None) -> None:
    obj = thing("orphan")
    assert decide(obj, Uncollected(), DeleteOptions(propagation_policy=policy), NOW) is REMOVE


def test_a_deletion_under_way_takes_no_new_policy() -> None:
    obj = thing(ends_in=20, grace=30)
    assert decide(obj, GRACEFUL, DeleteOptions(propagation_policy="Orphan"), NOW) is PENDING
    assert "finalizers" not in metadata(obj)


def test_a_mark_counts_as_a_change_of_the_spec() -> None:
    obj = thing("f")
    metadata(obj)["generation"] = 3
    decide(obj, PLAIN, DeleteOptions(), NOW)
    decide(obj, PLAIN, DeleteOptions(), NOW)
    assert metadata(obj)["generation"] == 4


def test_a_kind_writes_down_that_its_deletion_has_begun() -> None:
    obj = thing(held=True)
    decide(obj, HELD, DeleteOptions(), NOW)
    assert obj["phase"] == "Terminating"


@pytest.mark.parametrize("seconds", [2**31, 2**62, 2**63 - 1])
def test_a_period_of_centuries_is_a_date_all_the_same(seconds: int) -> None:
    obj = thing()
    decide(obj, GRACEFUL, DeleteOptions(grace_period_seconds=seconds), NOW)
    assert metadata(obj)["deletionGracePeriodSeconds"] == seconds
    assert abs(parse_timestamp(metadata(obj)["deletionTimestamp"]) - NOW) < 293 * 366 * 86_400


@pytest.mark.parametrize(
    ("obj", "strategy", "finished"),
    [
        (thing(), PLAIN, False),
        (thing("f", ends_in=0), PLAIN, False),
        (thing(ends_in=0), PLAIN, True),
        (thing(ends_in=9, grace=30), GRACEFUL, False),
        (thing(ends_in=0), GRACEFUL, True),
        (thing(ends_in=0, held=True), HELD, False),
    ],
)
def test_a_marked_object_goes_with_the_last_thing_that_kept_it(obj: Obj, strategy: Strategy, finished: bool) -> None:
    assert is_finished(obj, strategy) is finished


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (DeleteOptions(precondition_uid="u", precondition_resource_version="7"), None),
        (DeleteOptions(precondition_uid="v"), "the UID in the precondition (v) does not match the UID in record (u)"),
        (DeleteOptions(precondition_uid=""), "the UID in the precondition ()"),
        (DeleteOptions(precondition_resource_version="8"), "the ResourceVersion in the precondition (8) does not"),
    ],
)
def test_preconditions(options: DeleteOptions, refusal: str | None) -> None:
    if refusal is None:
        check_preconditions(thing(), CONFIG_MAPS, options)
        return
    with pytest.raises(Conflict) as refused:
        check_preconditions(thing(), CONFIG_MAPS, options)
    assert refusal in refused.value.message


@pytest.mark.parametrize(
    ("body", "query", "options"),
    [
        ({}, {}, DeleteOptions()),
        ({"gracePeriodSeconds": 0}, {}, DeleteOptions(grace_period_seconds=0)),
        ({}, {"gracePeriodSeconds": "-1", "dryRun": "All"}, DeleteOptions(grace_period_seconds=-1, dry_run=True)),
        ({"dryRun": ["All"]}, {}, DeleteOptions(dry_run=True)),
        ({"dryRun": ["All", "All"]}, {}, DeleteOptions(dry_run=True)),
        ({"orphanDependents": True}, {}, DeleteOptions(propagation_policy="Orphan")),
        ({"orphanDependents": False}, {}, DeleteOptions(propagation_policy="Background")),
        ({}, {"orphanDependents": "1"}, DeleteOptions(propagation_policy="Orphan")),
        ({}, {"orphanDependents": "False"}, DeleteOptions(propagation_policy="Background")),
        ({}, {"propagationPolicy": "Foreground"}, DeleteOptions(propagation_policy="Foreground")),
        ({"preconditions": {"uid": "u"}}, {}, DeleteOptions(precondition_uid="u")),
        ({"preconditions": {"resourceVersion": "3"}}, {}, DeleteOptions(precondition_resource_version="3")),
    ],
)
def test_options_come_from_the_body_or_the_query(body: Obj, query: dict[str, str], options: DeleteOptions) -> None:
    assert options_of(body, query) == options


@pytest.mark.parametrize(
    ("body", "query", "error", "message"),
    [
        ({}, {"gracePeriodSeconds": "soon"}, BadRequest, 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ({}, {"gracePeriodSeconds": "9" * 30}, BadRequest, "value out of range"),
        ({"propagationPolicy": "Sideways"}, {}, Invalid, 'Unsupported value: "Sideways"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, {}, Invalid, "cannot be both set"),
        ({"dryRun": ["Some"]}, {}, Invalid, 'Unsupported value: ["Some"]'),
    ],
)
def test_options_that_make_no_sense_are_refused(
    body: Obj, query: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace("[", r"\[").replace("]", r"\]")):
        options_of(body, query)
