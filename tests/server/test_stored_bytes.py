"""Objects at rest: each version of a kind begins as its lists rely on, and each key says whose it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import Encoded, stamp
from fairlead.server.assembly import Server
from fairlead.server.codec.normalise import zero_object
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.keys import key_of, parts_of, prefix_of
from fairlead.store.memory import MemoryStore

VERSIONS = [
    (served, version) for served in Server(MemoryStore()).registry.catalogue for version in served.versions.values()
]
#: Path segments: whatever has no slash.
SEGMENTS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("served", "version"),
    VERSIONS,
    ids=[version.resource.api_version + version.resource.kind for _, version in VERSIONS],
)
def test_an_object_begins_as_the_version_says_that_shows_it(served: Served, version: ServedVersion) -> None:
    """Lists cut that beginning off (`http/answers.py`)."""
    obj = zero_object(served.resource.definition) | {"metadata": {"name": "x"}}
    shown = version.shown(Encoded(stamp(served.encode(obj), 7)))
    assert shown.raw.startswith(version.prefix + b'"metadata":{"resourceVersion":"7"')
    assert shown.obj()["kind"] == version.resource.kind
    item = Encoded(b"{" + shown.raw[len(version.prefix) :]).obj()
    assert item == {key: value for key, value in shown.obj().items() if key not in ("kind", "apiVersion")}


@given(SEGMENTS, SEGMENTS | st.just(""), SEGMENTS)
def test_a_key_can_be_taken_apart_and_begins_as_those_of_its_resource(resource: str, namespace: str, name: str) -> None:
    key = key_of(resource, namespace, name)
    assert parts_of(key) == (resource, namespace, name)
    assert key.startswith(prefix_of(resource))
    assert not key.startswith(prefix_of(resource[:-1]))
