"""One seeded source: a run can be repeated, and what it makes up has the form that clients expect."""

from __future__ import annotations

import asyncio
from uuid import RFC_4122, UUID

from fairlead.runtime import rng


def test_the_same_seed_gives_the_same_uids_and_names() -> None:
    def made() -> list[str]:
        rng.seed(7)
        return [rng.uid(), rng.name_suffix(), rng.uid()]

    first = made()
    assert made() == first
    rng.seed(8)
    assert rng.uid() != first[0]


def test_who_makes_more_of_something_changes_nothing_else() -> None:
    """Two runs of which one writes an event more, or has a pod more, come to the same decisions."""
    with rng.seeded(7):
        choice = rng.source().random()
    with rng.seeded(7):
        uid, other_uid, name = rng.uid(), rng.uid(), rng.name_suffix()
        assert rng.source().random() == choice
    with rng.seeded(7):
        rng.source().random()
        assert rng.name_suffix() == name
        assert (rng.uid(), rng.uid()) == (uid, other_uid)


def test_uids_diverge_from_those_of_an_earlier_run_in_whatever_order_they_are_told() -> None:
    with rng.seeded(7):
        earlier = [rng.uid() for _ in range(3)]
    later = []
    for told in (earlier, earlier[::-1]):
        with rng.seeded(7):
            rng.diverge_from(told)
            later.append([rng.uid() for _ in range(3)])
    assert later[0] == later[1] and not set(later[0]) & set(earlier)


def test_who_is_seeded_is_not_disturbed_by_others_and_disturbs_nobody() -> None:
    """A simulation in the process of a server: the same uids on every run, and never those of the server's objects."""

    async def drawn(turns: asyncio.Event) -> list[str]:
        with rng.seeded(7):
            first = rng.uid()
            turns.set()
            await asyncio.sleep(0)
            return [first, rng.uid()]

    async def beside(turns: asyncio.Event) -> str:
        await turns.wait()
        return rng.uid()

    async def main() -> tuple[list[str], str]:
        turns = asyncio.Event()
        return await asyncio.gather(drawn(turns), beside(turns))

    (simulated, served), (again, served_later) = asyncio.run(main()), asyncio.run(main())
    assert simulated == again
    assert len({*simulated, served, served_later}) == 4


def test_a_uid_is_a_random_uuid() -> None:
    for _ in range(200):
        uid = UUID(text := rng.uid())
        assert (uid.version, uid.variant, str(uid)) == (4, RFC_4122, text)


def test_a_generated_name_ends_in_five_letters_that_spell_no_words() -> None:
    """Kubernetes' alphabet: neither vowels nor digits that look like them."""
    for _ in range(200):
        suffix = rng.name_suffix()
        assert len(suffix) == 5
        assert not set(suffix) & set("aeiou013")
