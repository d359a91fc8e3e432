"""What may start now, in whole pods: what is deserved before what is lent, and nothing that would be taken back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import dominant
from fairlead.fairshare.grants import ConsumerQueue, Holding, granted, startable
from tests.fairshare.generated import NAMES, RESOURCES, often, weights

Amounts = Mapping[str, int]


class Scene(msgspec.Struct, frozen=True):
    """Consumers that hold something and want more, at one moment."""

    queues: tuple[ConsumerQueue, ...]
    capacity: Amounts
    #: Held by nobody of them.
    occupied: Amounts

    @property
    def free(self) -> dict[str, int]:
        return {
            name: amount - self.occupied[name] - sum(queue.used[name] for queue in self.queues)
            for name, amount in self.capacity.items()
        }

    def more(self) -> dict[str, dict[str, int]]:
        return startable(self.granted(), self.free, self.capacity)

    def granted(self) -> list[ConsumerQueue]:
        """The queues, each with its part of what is free."""
        parts: dict[str, dict[str, int]] = {queue.name: {} for queue in self.queues}
        for name, amount in self.capacity.items():
            rows = {queue.name: Holding(queue.deserved[name], queue.used[name], queue.weight) for queue in self.queues}
            for queue, part in granted(rows, amount - self.occupied[name]).items():
                parts[queue][name] = int(part)
        return [replace(queue, granted=parts[queue.name]) for queue in self.queues]

    def left_after(self, more: Mapping[str, Amounts]) -> dict[str, int]:
        return {
            name: amount - sum(amounts.get(name, 0) for amounts in more.values()) for name, amount in self.free.items()
        }


@st.composite
def divided(draw: st.DrawFn, whole: Amounts, count: int) -> list[dict[str, int]]:
    """Parts of it, that many, together no more than the whole."""
    parts: list[dict[str, int]] = [{} for _ in range(count)]
    for name, amount in whole.items():
        for part in draw(st.permutations(parts)):
            part[name] = draw(st.integers(0, amount))
            amount -= part[name]
    return parts


@st.composite
def scenes(draw: st.DrawFn, *, sizes: int = 1, has_holders: bool = False) -> Scene:
    """Consumers whose pods are of one size each, or of several."""
    capacity = {name: draw(st.integers(1, 20)) for name in RESOURCES[: draw(st.integers(1, 3))]}
    count = draw(st.integers(1, 5))
    *used, occupied = draw(divided(capacity, count + 1))
    needs = st.dictionaries(st.sampled_from(sorted(capacity)), st.integers(1, 6), min_size=1)
    queues = []
    for name, holds, deserves in zip(NAMES, used, draw(divided(capacity, count)), strict=False):
        above = {key: draw(st.integers(0, 12)) for key in draw(st.sets(st.sampled_from(sorted(capacity))))}
        queues.append(
            ConsumerQueue(
                name,
                holds,
                {},
                deserves,
                {key: deserves[key] + amount for key, amount in above.items()},
                draw(st.lists(st.tuples(needs, st.integers(0, 6)), min_size=1, max_size=sizes)),
                weight=draw(st.one_of(st.just(0), weights)),
                held={key: draw(st.integers(0, amount)) for key, amount in deserves.items()} if has_holders else {},
            )
        )
    return Scene(tuple(queues), capacity, occupied)


def started(queue: ConsumerQueue, more: Amounts) -> int:
    """How many pods, if all are of one size."""
    ((need, _),) = queue.waiting
    return min(more.get(name, 0) // amount for name, amount in need.items())


def held_of(queue: ConsumerQueue, name: str) -> int:
    """What is kept for it beyond what it uses."""
    return min(queue.granted[name], queue.held.get(name, 0)) - queue.used[name]


def fitting(need: Amounts, room: Amounts) -> int:
    return min(max(room[name], 0) // amount for name, amount in need.items() if name in room)


def as_deserved(queue: ConsumerQueue) -> int:
    """For how many of its pods, of one size, what it deserves is enough."""
    ((need, count),) = queue.waiting
    return min(count, fitting(need, {name: queue.deserved[name] - queue.used[name] for name in queue.deserved}))


def times(need: Amounts, count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in need.items()}


# --- bounds ---------------------------------------------------------------------------------------------------------


@often
@given(scenes(sizes=3, has_holders=True))
def test_no_more_starts_than_is_free(scene: Scene) -> None:
    assert all(amount >= 0 for amount in scene.left_after(scene.more()).values())


@often
@given(scenes(sizes=3, has_holders=True))
def test_nobody_starts_anything_above_its_bound(scene: Scene) -> None:
    more = scene.more()
    for queue in scene.queues:
        for name, amount in queue.hard.items():
            assert not more[queue.name].get(name) or queue.used[name] + more[queue.name][name] <= amount


@often
@given(scenes())
def test_only_whole_pods_start_and_only_those_that_wait(scene: Scene) -> None:
    more = scene.more()
    for queue in scene.queues:
        ((need, count),) = queue.waiting
        number = started(queue, more[queue.name])
        assert number <= count
        assert {name: amount for name, amount in more[queue.name].items() if amount} == times(
            need, number
        ) or not number


@often
@given(scenes(sizes=3, has_holders=True), st.data())
def test_the_order_of_consumers_does_not_matter(scene: Scene, data: st.DataObject) -> None:
    shuffled = replace(scene, queues=tuple(data.draw(st.permutations(scene.queues))))
    assert shuffled.more() == scene.more()


def test_a_pod_that_needs_nothing_of_a_resource_does_not_wait_for_it() -> None:
    queue = ConsumerQueue("a", {"cpu": 0, "gpu": 0}, {"cpu": 2}, {"cpu": 2, "gpu": 0}, {}, [({"cpu": 1, "gpu": 0}, 3)])
    assert startable([queue], {"cpu": 2, "gpu": 0}, {"cpu": 2, "gpu": 0}) == {"a": {"cpu": 2}}


# --- what is deserved -----------------------------------------------------------------------------------------------


@often
@given(scenes(has_holders=True))
def test_pods_start_for_which_what_is_granted_is_enough(scene: Scene) -> None:
    more = scene.more()
    for queue in scene.granted():
        ((need, count),) = queue.waiting
        room = {name: amount - queue.used[name] for name, amount in queue.granted.items()}
        assert started(queue, more[queue.name]) >= min(count, fitting(need, room))


@often
@given(scenes())
def test_all_that_is_free_and_deserved_starts(scene: Scene) -> None:
    """Nobody waits for what it deserves if it fits into what is left when those start that deserve it."""
    more = scene.more()
    deserved = {queue.name: min(started(queue, more[queue.name]), as_deserved(queue)) for queue in scene.queues}
    left = scene.left_after({queue.name: times(queue.waiting[0][0], deserved[queue.name]) for queue in scene.queues})
    for queue in scene.queues:
        if deserved[queue.name] < as_deserved(queue):
            assert not fitting(queue.waiting[0][0], left)


@often
@given(scenes(has_holders=True))
def test_nothing_is_lent_that_somebody_waits_for_who_deserves_it(scene: Scene) -> None:
    """It is kept until the rest of what such a pod needs is free, too."""
    more = scene.more()
    left, lent, kept = scene.free, dict.fromkeys(scene.capacity, 0), dict.fromkeys(scene.capacity, 0)
    for queue in scene.granted():
        ((need, _),) = queue.waiting
        number = started(queue, more[queue.name])
        deserved = min(number, as_deserved(queue))
        for name, amount in need.items():
            left[name] -= amount * deserved
            lent[name] += amount * (number - deserved)
        for name in scene.capacity:
            waiting = need.get(name, 0) * (as_deserved(queue) - deserved)
            held = held_of(queue, name) - need.get(name, 0) * number  # it may use what is kept for itself
            kept[name] += max(waiting, held, 0)
    assert all(lent[name] <= max(left[name] - kept[name], 0) for name in scene.capacity)


@often
@given(scenes(sizes=3, has_holders=True))
def test_what_is_held_for_a_consumer_is_for_nobody_else(scene: Scene) -> None:
    """Or what is granted would be more, in all, than is free or held already (S2-35)."""
    more = scene.more()
    for name, amount in scene.free.items():
        promised = sum(max(more[queue.name].get(name, 0), held_of(queue, name)) for queue in scene.granted())
        assert promised <= amount


def test_no_more_is_kept_than_is_deserved() -> None:
    """Two sizes of pods wait, and each alone would be all that is deserved: the other half is lent."""
    waiting = [({"cpu": 10, "gpu": 1}, 1), ({"cpu": 5, "gpu": 1}, 2)]
    nothing = {"cpu": 0, "gpu": 0}
    picky = ConsumerQueue("picky", nothing, {"cpu": 10, "gpu": 0}, {"cpu": 10, "gpu": 2}, {}, waiting)
    hungry = ConsumerQueue("hungry", nothing, nothing, nothing, {}, [({"cpu": 1}, 20)])
    found = startable([picky, hungry], {"cpu": 16, "gpu": 0}, {"cpu": 20, "gpu": 2})
    assert found["hungry"] == {"cpu": 6}


def test_the_pods_of_the_unlimited_start_before_others_that_are_deserved() -> None:
    """Of neither is a whole pod granted; without that the other would go first, for more of its pod is."""
    nothing = {"cpu": 0}
    greedy = ConsumerQueue("other", nothing, {"cpu": 3}, {"cpu": 4}, {}, [({"cpu": 4}, 1)])
    system = ConsumerQueue("system", nothing, {"cpu": 1}, {"cpu": 4}, {}, [({"cpu": 4}, 1)], is_unlimited=True)
    assert startable([greedy, system], {"cpu": 4}, {"cpu": 9}) == {"other": {}, "system": {"cpu": 4}}


# --- what is lent ---------------------------------------------------------------------------------------------------


@often
@given(scenes())
def test_all_that_nobody_waits_for_is_lent(scene: Scene) -> None:
    """While nobody waits for what it deserves, whoever waits is stopped by its bound, or by too little that is left."""
    more = scene.more()
    if all(started(queue, more[queue.name]) >= as_deserved(queue) for queue in scene.queues):
        left = scene.left_after(more)
        for queue in scene.queues:
            ((need, count),) = queue.waiting
            if started(queue, more[queue.name]) < count:
                used = {name: queue.used[name] + more[queue.name].get(name, 0) for name in queue.hard}
                room = {name: amount - used[name] for name, amount in queue.hard.items()}
                assert not fitting(need, left) or (room.keys() & need.keys() and not fitting(need, room))


@often
@given(scenes())
def test_pods_are_lent_to_whoever_has_least(scene: Scene) -> None:
    """Nobody was given its last pod who had more, even without that, than another that has a weight and waits for one
    that would have fitted instead.
    """
    more = scene.more()
    left = scene.left_after(more)
    if any(started(queue, more[queue.name]) < as_deserved(queue) for queue in scene.queues):
        return
    for lucky in scene.queues:
        ((one_pod, _),) = lucky.waiting
        number = started(lucky, more[lucky.name])
        if number <= as_deserved(lucky):
            continue
        instead = {name: amount + one_pod.get(name, 0) for name, amount in left.items()}
        for peer in scene.queues:
            ((need, count),) = peer.waiting
            has = {name: peer.used[name] + more[peer.name].get(name, 0) for name in scene.capacity}
            room = {name: amount - has[name] for name, amount in peer.hard.items()}
            if (
                started(peer, more[peer.name]) < count
                and fitting(need, instead)
                and (not room.keys() & need.keys() or fitting(need, room))
            ):
                had = {name: lucky.used[name] + one_pod.get(name, 0) * (number - 1) for name in scene.capacity}
                assert peer.weight == 0 or (lucky.weight and level(lucky, had, scene) <= level(peer, has, scene))


def level(queue: ConsumerQueue, has: Amounts, scene: Scene) -> mpq:
    return dominant(has, scene.capacity) / queue.weight


# --- no loops -------------------------------------------------------------------------------------------------------


def after(scene: Scene, more: Mapping[str, Amounts]) -> Scene:
    """All has started that may; whoever waited for it does so no longer."""
    queues = []
    for queue in scene.queues:
        ((need, count),) = queue.waiting
        used = {name: amount + more[queue.name].get(name, 0) for name, amount in queue.used.items()}
        queues.append(replace(queue, used=used, waiting=[(need, count - started(queue, more[queue.name]))]))
    return replace(scene, queues=tuple(queues))


@often
@given(scenes())
def test_when_all_that_may_has_started_nothing_else_may(scene: Scene) -> None:
    """One answer is enough: what is asked again with the same totals changes nothing."""
    again = after(scene, scene.more()).more()
    assert not any(amount for more in again.values() for amount in more.values())


@often
@given(scenes())
def test_nobody_waits_for_what_was_lent(scene: Scene) -> None:
    """What has just been lent would be of no use to anybody who deserves it and waits: to take it back is to have given
    it to the wrong one.
    """
    more = scene.more()
    then = after(scene, more)
    lent = dict.fromkeys(scene.capacity, 0)
    for queue in scene.queues:
        extra = started(queue, more[queue.name]) - as_deserved(queue)
        for name, amount in times(queue.waiting[0][0], max(extra, 0)).items():
            lent[name] += amount
    room = {name: amount + lent[name] for name, amount in then.free.items()}
    for queue in then.queues:
        if as_deserved(queue):
            assert not fitting(queue.waiting[0][0], room)
