"""An answer in YAML is the same however large its maps are."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.server.http.answers import Answer
from fairlead.server.http.negotiate import YAML, MediaTypeOptions

TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    st.sampled_from(["yes", "1", "a: b", "- x", "two\nlines", " ", "é", "#"]),
)


def written(obj: Obj) -> bytes:
    return Answer.of_raw(msgspec.json.encode(obj), MediaTypeOptions(YAML)).body


def plain(obj: Obj) -> bytes:
    text: str = yaml.dump(obj, Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


KEYS = st.one_of(TEXTS.filter(bool), st.sampled_from(["data", "yes", "k" * 99, "k" * 200]))


@given(KEYS, st.lists(TEXTS, min_size=1, max_size=5), st.lists(TEXTS, min_size=1, max_size=5))
def test_a_large_map_is_written_as_a_small_one_is(key: str, names: list[str], values: list[str]) -> None:
    data = {f"{names[number % len(names)]}{number}": values[number % len(values)] for number in range(1300)}
    obj: Obj = {"kind": "ConfigMap", "metadata": {"name": "m", "labels": {}}, key: data}
    assert written(obj) == plain(obj)


@pytest.mark.parametrize("size", [499, 500, 501, 1000, 1001])
def test_no_entry_is_lost_between_two_parts(size: int) -> None:
    data = {f"key-{number:04}": "v" for number in range(size)}
    assert yaml.safe_load(written({"data": data})) == {"data": data}
