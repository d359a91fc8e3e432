"""JSON of strangers: what a fast parser reads, and what it must not cost."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import Encoded
from fairlead.golang.json import MalformedJson, decode, parse

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_values_are_read_as_they_were_written(value: Any) -> None:
    body = json.dumps(value).encode()
    assert parse(body) == decode(body) == value
    assert Encoded(b'{"a":%b}' % body).obj() == {"a": value}


@given(st.integers(0, 10**18), st.integers(-345, 308))
def test_a_number_with_an_exponent_is_the_nearest_float(digits: int, exponent: int) -> None:
    text = f"0.{digits}e{exponent}"
    assert parse(text.encode()) == Encoded(b'{"a":%b}' % text.encode()).obj()["a"] == float(text)


@pytest.mark.parametrize("text", ["1e309", "-1e309", "1" + "0" * 309 + ".0", "[1e999]"])
def test_what_no_float_can_be_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson, match=r"cannot unmarshal number .* into Go value of type float64"):
        parse(text.encode())


@pytest.fixture
def frequent_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_turns")
def test_others_go_on_while_a_body_of_extreme_numbers_is_read() -> None:
    turns, is_done = 0, threading.Event()

    def others() -> None:
        nonlocal turns
        while not is_done.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=others)
    thread.start()
    before = turns
    try:
        parse(b"[" + b",".join([b"1e308"] * 50_000) + b"]")
    finally:
        gone_on = turns - before
        is_done.set()
        thread.join()
    assert gone_on > 10
