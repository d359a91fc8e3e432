"""Objects found by labels: always those that a look at all of them finds, also while they come, change and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import encode
from fairlead.api.selector_text import parse
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.label_index import LabelIndex

_CHANGES = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["p", "q", "r"]),
    st.none() | st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["1", "2"])),
)


def _apply(cache: Cache, revision: int, namespace: str, name: str, labels: dict[str, str] | None) -> None:
    raw = None if labels is None else encode({"metadata": {"name": name, "namespace": namespace, "labels": labels}})
    cache.apply(revision, namespace, name, raw)


@given(st.lists(st.lists(_CHANGES, max_size=5), max_size=6), st.booleans())
def test_candidates_are_those_that_have_the_labels_whatever_changed(
    rounds: list[list[tuple[str, str, dict[str, str] | None]]], is_forgetful: bool
) -> None:
    cache, revision = Cache("pods", lambda: 0.0), 0
    index = LabelIndex(cache)
    for changes in rounds:
        for namespace, name, labels in changes:
            revision += 1
            _apply(cache, revision, namespace, name, labels)
        if is_forgetful:
            cache.forget_before(revision)
        for text in ("app=1", "app=1,tier=2", "tier=2,app!=1"):
            selector = parse(text)
            candidates = index.candidates("a", selector)
            assert candidates is not None
            assert [entry for entry in candidates if selector.matches(entry.labels)] == [
                entry for entry in cache.entries("a") if selector.matches(entry.labels)
            ]


def test_few_are_looked_at_of_many_others() -> None:
    cache = Cache("pods", lambda: 0.0)
    for number in range(100):
        _apply(cache, number + 1, "a", f"p-{number}", {"app": str(number % 50), "tier": "1"})
    candidates = LabelIndex(cache).candidates("a", parse("tier=1,app=7"))
    assert [entry.name for entry in candidates or ()] == ["p-57", "p-7"]


def test_what_requires_no_certain_label_is_for_others_to_find() -> None:
    index = LabelIndex(Cache("pods", lambda: 0.0))
    assert index.candidates("a", parse("app in (1,2)")) is None
    assert index.candidates("", parse("app=1")) is None
