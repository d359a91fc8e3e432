from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from fairlead.caches import LruCache, bounded_cache


def test_a_text_is_computed_once_unless_it_is_long() -> None:
    asked: list[str] = []

    @bounded_cache(maxsize=2, longest=3)
    def upper(text: str, suffix: str = "") -> str:
        asked.append(text)
        return text.upper() + suffix

    assert [upper("abc"), upper("abc"), upper("abc", "!")] == ["ABC", "ABC", "ABC!"]
    assert asked == ["abc", "abc"]
    assert [upper("long"), upper("long")] == ["LONG", "LONG"]
    assert asked == ["abc", "abc", "long", "long"]


def test_texts_of_strangers_take_no_memory() -> None:
    @bounded_cache(maxsize=1000)
    def size(text: bytes) -> int:
        return len(text)

    tracemalloc.start()
    try:
        for number in range(1000):
            size(number.to_bytes(4) * 250_000)
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 9))))
def test_what_was_used_last_is_what_is_kept(maxsize: int, steps: list[tuple[bool, int]]) -> None:
    cache: LruCache[int, str] = LruCache(maxsize)
    used: list[int] = []  # the slow, obvious version: least recently used first
    for is_put, key in steps:
        if is_put:
            cache.put(key, str(key))
        else:
            assert cache.get(key) == (str(key) if key in used else None)
        if is_put or key in used:
            used = [*(other for other in used if other != key), key][-maxsize:]
        assert len(cache) == len(used)
        assert all((key in cache) is (key in used) for key in range(10))


def test_what_another_thread_puts_in_meanwhile_breaks_nobody() -> None:
    cache: LruCache[object, str] = LruCache(1)

    class Key:
        """Another thread has its turn when the key is looked up for the second time."""

        lookups = 0

        def __hash__(self) -> int:
            self.lookups += 1
            if self.lookups == 2:
                cache.put("another", "later")
            return 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key)

    cache.put(Key(), "found")
    assert cache.get(Key()) == "found"
    assert "another" in cache
    assert len(cache) == 1
