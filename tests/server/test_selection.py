"""Selectors of fields: which each kind offers, what an object reads as that does not say it, and any value whatever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.api import builtin, field_selectors
from fairlead.api.encoded import encode
from fairlead.api.errors import BadRequest
from fairlead.api.field_selectors import FieldSelector, Term
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.assembly import Server
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.selection import select
from fairlead.server.storage.watchers import Selection
from fairlead.store.memory import MemoryStore
from tests.played import played
from tests.server.registry_world import POD_SPEC, Watching, World, run

CATALOGUE = Server(MemoryStore()).registry.catalogue


def involved(prefix: str) -> list[tuple[str, str, Obj]]:
    fields = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return [(f"{prefix}.{field}", "", {"involvedObject": {field: "v"}}) for field in fields]


#: Field by field: what it reads as in an object that does not have it, and an object in which it is `v` (or `shown`).
FIELDS: list[tuple[Resource, list[tuple[Any, ...]]]] = [
    (
        builtin.PODS,
        [
            ("spec.nodeName", "", {"spec": {"nodeName": "v"}}),
            ("spec.host", "", {"spec": {"nodeName": "v"}}),
            ("spec.restartPolicy", "", {"spec": {"restartPolicy": "v"}}),
            ("spec.schedulerName", "", {"spec": {"schedulerName": "v"}}),
            ("spec.serviceAccountName", "", {"spec": {"serviceAccountName": "v"}}),
            ("spec.hostNetwork", "false", {"spec": {"hostNetwork": True}}, "true"),
            ("status.phase", "", {"status": {"phase": "v"}}),
            ("status.podIP", "", {"status": {"podIP": "10.1.2.3"}}, "10.1.2.3"),
            ("status.podIPs", "", {"status": {"podIPs": [{"ip": "10.1.2.3"}]}}, ""),
            ("status.nominatedNodeName", "", {"status": {"nominatedNodeName": "v"}}),
        ],
    ),
    (builtin.NODES, [("spec.unschedulable", "false", {"spec": {"unschedulable": True}}, "true")]),
    (builtin.NAMESPACES, [("status.phase", "", {"status": {"phase": "v"}})]),
    (builtin.SECRETS, [("type", "", {"type": "v"})]),
    (
        builtin.SERVICES,
        [
            ("spec.clusterIP", "", {"spec": {"clusterIP": "fd00::7"}}, "fd00::7"),
            ("spec.type", "", {"spec": {"type": "v"}}),
        ],
    ),
    (builtin.REPLICATION_CONTROLLERS, [("status.replicas", "0", {"status": {"replicas": 3}}, "3")]),
    (builtin.JOBS, [("status.successful", "0", {"status": {"succeeded": 12}}, "12")]),
    (builtin.CERTIFICATE_SIGNING_REQUESTS, [("spec.signerName", "", {"spec": {"signerName": "v"}})]),
    (
        builtin.RESOURCE_SLICES,
        [("spec.nodeName", "", {"spec": {"nodeName": "v"}}), ("spec.driver", "", {"spec": {"driver": "v"}})],
    ),
    (
        builtin.EVENTS,
        [
            *involved("involvedObject"),
            ("reason", "", {"reason": "v"}),
            ("type", "", {"type": "v"}),
            ("reportingComponent", "", {"reportingComponent": "v"}),
            ("source", "", {"source": {"component": "v"}}),
            ("source", "", {"reportingComponent": "v"}),
        ],
    ),
    (
        builtin.EVENTS_K8S_IO,
        [
            *involved("regarding"),
            ("reason", "", {"reason": "v"}),
            ("type", "", {"type": "v"}),
            ("reportingController", "", {"reportingComponent": "v"}),
            ("source", "", {"source": {"component": "v"}}),
        ],
    ),
]
ROWS = [(resource, *field, "v")[:5] for resource, fields in FIELDS for field in fields]


def entry(obj: Obj) -> Entry:
    return Entry(encode({"kind": "K", "apiVersion": "v1", "metadata": {"name": "x"}} | obj), "n", "x", 1)


def selecting(resource: Resource, *terms: Term) -> Selection:
    served, version = CATALOGUE.of(resource)
    return select(served, version, "", "", str(FieldSelector(terms)))


@pytest.mark.parametrize(("resource", "field", "unset", "obj", "shown"), ROWS)
def test_each_field_can_be_selected_by(resource: Resource, field: str, unset: str, obj: Obj, shown: str) -> None:
    without, with_it = entry({}), entry(obj)
    for value in (unset, shown, "other"):
        is_, is_not = selecting(resource, Term(field, value)), selecting(resource, Term(field, value, is_negated=True))
        assert (is_.includes(without), is_not.includes(without)) == (value == unset, value != unset)
        assert (is_.includes(with_it), is_not.includes(with_it)) == (value == shown, value != shown)


def test_thousands_of_terms_look_at_an_object_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    field = Entry.field

    def looked(self: Entry, name: str, read: Callable[[Obj], str]) -> str:
        nonlocal looks
        looks += 1
        return field(self, name, read)

    monkeypatch.setattr(Entry, "field", looked)
    found = entry({"spec": {"nodeName": "v"}})
    others = [Term("spec.nodeName", f"w{number}", is_negated=True) for number in range(3000)]
    assert selecting(builtin.PODS, *others).includes(found)
    assert selecting(builtin.PODS, *others, *[Term("spec.nodeName", "v")] * 3000).includes(found)
    assert not selecting(builtin.PODS, Term("spec.nodeName", "v"), Term("spec.nodeName", "w")).includes(found)
    assert not selecting(builtin.PODS, Term("spec.nodeName", "v"), Term("spec.nodeName", "v", True)).includes(found)
    assert looks < 10


def test_no_field_is_left_out() -> None:
    offered = {
        (version.resource.api_version, version.resource.kind, field)
        for served in CATALOGUE
        for version in served.versions.values()
        for field in served.strategy.selectable_in(version.resource.api_version)
    }
    assert offered == {(row[0].api_version, row[0].kind, row[1]) for row in ROWS}


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (builtin.SERVICES, "field label not supported: x"),
        (builtin.JOBS, 'field label "x" not supported for batchv1.Job'),
        (builtin.RESOURCE_SLICES, "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x"),
        (builtin.REPLICA_SETS, '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_another_field_is_refused_in_the_words_of_the_kind(resource: Resource, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selecting(resource, Term("x", "1"))
    assert refused.value.message == message


#: What is hard to find in JSON, what a field may be without saying so, and what is in every object.
_VALUES = st.one_of(
    st.text(max_size=4), st.sampled_from(["", 'a"b', "a\\b", "a\tb", "é", "<&>", "true", "0", "x", "v1"])
)
_TERMS = st.lists(
    st.builds(Term, st.sampled_from(["spec.nodeName", "spec.hostNetwork", "metadata.name"]), _VALUES, st.booleans()),
    max_size=4,
)


@given(_VALUES, st.booleans(), _TERMS)
@example('a"b\\\t', False, [Term("spec.nodeName", 'a"b\\\t')])
@example("", False, [Term("spec.hostNetwork", "false")])
def test_the_fast_way_selects_what_comparing_selects(node: str, is_host: bool, terms: list[Term]) -> None:
    found = entry({"spec": {"nodeName": node} | ({"hostNetwork": True} if is_host else {})})
    fields = {"metadata.name": "x", "spec.nodeName": node, "spec.hostNetwork": "true" if is_host else "false"}
    selection = selecting(builtin.PODS, *terms)
    assert selection.includes(found) is FieldSelector(tuple(terms)).matches(fields)
    if selection.includes(found):
        assert all(term.read(found) == term.value for term in selection.equal)


@given(st.lists(st.builds(Term, st.sampled_from(["a", "b"]), st.text(max_size=5), st.booleans()), max_size=4))
def test_what_is_written_is_read_back(terms: list[Term]) -> None:
    written = FieldSelector(tuple(sorted(terms, key=str)))
    assert field_selectors.parse(str(written)) == written


@played(run)
async def test_watchers_of_a_field_see_objects_come_and_go(world: World) -> None:
    """An object leaves a selection by what it becomes, and enters another."""
    free, cordoned = (
        Watching(world.api, builtin.NODES, fields=f"spec.unschedulable={value}") for value in ("false", "true")
    )
    await world.create(builtin.NODES, {"metadata": {"name": "a"}})
    assert (await free.seen_events(), await cordoned.seen_events()) == ([("ADDED", "a")], [])
    for value in (True, False):
        await world.api.patch(builtin.NODES, "a", "", {"spec": {"unschedulable": value}})
    assert await free.seen_events() == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    assert await cordoned.seen_events() == [("ADDED", "a"), ("DELETED", "a")]
    assert await world.names(builtin.NODES, fields="spec.unschedulable=false") == ["a"]
    await world.create(builtin.PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    assert await world.names(builtin.PODS, fields="spec.hostNetwork=false") == ["p"]
