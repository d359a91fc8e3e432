"""Dumps are read fast and alike: whatever the careful parser makes of a text, the fast way makes of it, too."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.encoded import copied
from fairlead.golang import yaml as goyaml
from fairlead.sim import dump_text
from fairlead.sim.dump_text import documents
from tests.examples import examples

_PADDING = "# " + "x" * 70_000 + "\n"

_AMBIGUOUS = (
    "yes",
    "no",
    "on",
    "~",
    "null",
    "true",
    "012",
    "0x1f",
    "1_000",
    "+5",
    "1e3",
    ".5",
    "1.",
    "2026-01-01T00:00:00Z",
)
_ORDINARY = (
    "-",
    "",
    " x",
    "1Gi",
    "100m",
    "a: b",
    "#c",
    "&a",
    "*a",
    "!t",
    "a\nb",
    "é",
    "'",
    '"',
    "{}",
    "[x]",
    "%",
    "=",
    "<<",
)
_words = st.sampled_from((*_AMBIGUOUS, *_ORDINARY))
_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e9, 1e9, width=32) | _words | st.text()
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words | st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(100))
@given(st.lists(st.dictionaries(st.text(min_size=1), _values, min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_written_as_yaml_is_read_as_by_the_careful_parser(objects: list[dict[str, Any]]) -> None:
    try:
        text = (_PADDING + yaml.safe_dump_all(objects, allow_unicode=True)).encode()
        careful = list(goyaml.strict_documents(text))
    except (ValueError, yaml.YAMLError):
        return
    assert list(documents(text)) == careful


@pytest.mark.parametrize(
    "word", ["yes", "NO", "on", "~", "TRUE", "012", "0o17", "0x1F", "1_000", "+1", "1e3", ".5", "1.", "y"]
)
def test_words_of_yaml_1_1_are_what_they_were(word: str) -> None:
    for text in (f"a: {word}\n", f"a:\n- {word}\n", f"a: [x, {word}]\n", f"a: {word} # so\n", f"{word}: 1\n"):
        if text.startswith("~"):
            continue  # no key
        large = (_PADDING + text).encode()
        assert list(documents(large)) == list(goyaml.strict_documents(large))


@pytest.mark.parametrize(
    "text", ["a: &x {b: 1}\nc: *x\n", "a: !!str 1\n", "---\na: 1\n---\nb: 2\n", "# nothing\n", "a: |\n  b\n"]
)
def test_what_only_the_careful_parser_knows_is_left_to_it(text: str) -> None:
    large = (_PADDING + text).encode()
    assert list(documents(large)) == list(goyaml.strict_documents(large))


def test_json_that_is_cut_off_is_refused_with_its_line() -> None:
    text = json.dumps({"items": [{"n": "x" * 100} for _ in range(1000)]}, indent=1)[:-50]
    with pytest.raises(ValueError, match=r"line 300\d: this is no JSON, or it is cut off"):
        list(documents(text.encode()))


def test_yaml_that_begins_like_json_is_yaml() -> None:
    assert list(documents(b"{a: 1, b: [2]}\n")) == [{"a": 1, "b": [2]}]


def test_large_texts_go_the_fast_way() -> None:
    items = [{"name": f"pod-{number}", "cpu": "100m", "ready": True, "port": 80} for number in range(3000)]
    text = yaml.safe_dump({"items": items}).encode()
    assert dump_text._fast(text) == [{"items": items}]
    assert dump_text._PARTICULAR.search(text) is None


def test_a_large_dump_that_is_cut_off_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    """The fast parser writes to the process's stderr what it finds, with lines of its own source."""
    text = "apiVersion: v1\nitems:\n" + "- kind: Pod\n" * 10_000 + '- "kind'
    with pytest.raises(ValueError, match=r"line 1000\d"):
        list(documents(text.encode()))
    assert capfd.readouterr().err == ""


_LISTS = ({"apiVersion": "v1", "items": [{"n": 1}], "kind": "List"}, {"apiVersion": "v1", "items": [], "kind": "List"})


@pytest.mark.parametrize("count", [1, 20_000])
@pytest.mark.parametrize("dumps", [yaml.safe_dump, lambda value: json.dumps(value, indent=4) + "\n", json.dumps])
def test_lists_that_were_written_to_one_file_one_after_the_other_are_all_read(count: int, dumps: Any) -> None:
    """As `kubectl get nodes -o yaml > FILE; kubectl get pods -o yaml >> FILE` leaves it."""
    lists = [{**_LISTS[0], "items": [{"n": "a"}] * count}, _LISTS[1]]
    text = "".join(dumps(copied(found)) for found in lists)
    assert list(documents(text.encode())) == lists


def test_what_is_compressed_is_named_so() -> None:
    with pytest.raises(ValueError, match="it is compressed: unpack it first"):
        list(documents(gzip.compress(b"kind: List\n")))


def test_what_is_wrong_in_a_later_list_is_told_with_the_line_of_the_file() -> None:
    text = yaml.safe_dump(_LISTS[0]) + "apiVersion: v1\nitems: [\n"
    with pytest.raises(ValueError, match=r"line 6: "):
        list(documents(text.encode()))
    with pytest.raises(ValueError, match=r"line 2: this is no JSON, or it is cut off"):
        list(documents((json.dumps(_LISTS[0]) + '\n{"kind": "Li').encode()))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_what_powershell_writes_is_read(encoding: str) -> None:
    for dumps in (json.dumps, yaml.safe_dump):
        assert list(documents(dumps(_LISTS[0]).replace("\n", "\r\n").encode(encoding))) == [_LISTS[0]]
