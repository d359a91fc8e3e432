"""What holds of eviction whatever pods use: the order is total and stable, and nobody goes without a reason."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, DiskUsage, PodUsage, candidate
from fairlead.node.eviction.manager import EvictionInputs, EvictionState, PassOutcome, eviction_pass
from fairlead.node.eviction.ranking import first_victim, ranked
from fairlead.node.eviction.settings import EvictionSettings
from fairlead.node.eviction.signals import FileSystems, FileSystemStats, NodeStats, Observation, Signal
from fairlead.node.eviction.thresholds import Threshold, parse_thresholds

_MI = 2**20
#: Sets of figures are small, so that pods are often alike.
_AMOUNTS = st.sampled_from([0, 1, 64 * _MI, 128 * _MI, 256 * _MI])
#: The last is above 64Mi by a fraction of a byte.
_REQUESTS = st.sampled_from(["0", "1", "64Mi", "128Mi", "67108864001m"])
_PRIORITIES = st.sampled_from([-1, 0, 0, 10, 2_000_000_000])
_SIGNALS = st.sampled_from(list(Signal))
_FILE_SYSTEMS = st.sampled_from(list(FileSystems))


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    requests = {name: draw(_REQUESTS) for name in draw(st.sets(st.sampled_from(["memory", "ephemeral-storage"])))}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], "priority": draw(_PRIORITIES)}
    return {"metadata": {"name": "p", "namespace": draw(st.sampled_from("ab"))}, "spec": spec}


@st.composite
def usages(draw: st.DrawFn) -> PodUsage | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    disk = DiskUsage(draw(_AMOUNTS), draw(st.integers(0, 3)))
    memory = draw(_AMOUNTS)
    return PodUsage(memory, draw(st.integers(0, 3)), (ContainerUsage("c", memory, disk, disk),))


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Candidate], dict[str, PodUsage]]:
    manifests = draw(st.lists(pods(), max_size=8))
    candidates = [
        candidate(pod | {"metadata": pod["metadata"] | {"name": f"p{number}", "uid": f"u{number}"}})
        for number, pod in enumerate(manifests)
    ]
    measured = {each.uid: draw(usages()) for each in candidates}
    return candidates, {uid: usage for uid, usage in measured.items() if usage is not None}


@given(crowds(), _SIGNALS, _FILE_SYSTEMS)
def test_everybody_has_one_place_and_equals_keep_theirs(
    crowd: tuple[list[Candidate], dict[str, PodUsage]], signal: Signal, filesystems: FileSystems
) -> None:
    candidates, measured = crowd
    order = ranked(candidates, measured, signal, filesystems)
    assert sorted(each.uid for each in order) == sorted(each.uid for each in candidates)
    assert ranked(order, measured, signal, filesystems) == order
    evictable = [each for each in order if not each.is_critical]
    assert first_victim(candidates, measured, signal, filesystems) == (evictable[0] if evictable else None)


@given(crowds(), _SIGNALS, _FILE_SYSTEMS)
def test_who_goes_before_whom_does_not_depend_on_the_rest(
    crowd: tuple[list[Candidate], dict[str, PodUsage]], signal: Signal, filesystems: FileSystems
) -> None:
    candidates, measured = crowd
    order = ranked(candidates, measured, signal, filesystems)
    for first, second in pairwise(order):
        assert ranked([first, second], measured, signal, filesystems) == [first, second]


@given(crowds())
def test_nobody_within_its_request_goes_before_somebody_above_it(
    crowd: tuple[list[Candidate], dict[str, PodUsage]],
) -> None:
    """S3-71 to S3-74: QoS class is no input, but what a pod requested is its guarantee."""
    candidates, measured = crowd
    order = ranked(candidates, measured, Signal.MEMORY, FileSystems.SHARED)
    exceeds = [
        (usage.memory or 0) > each.memory_request.units
        for each in order
        if (usage := measured.get(each.uid)) is not None
    ]
    assert exceeds == sorted(exceeds, reverse=True)


@given(crowds(), _SIGNALS)
def test_pods_of_the_most_overused_namespace_go_first(
    crowd: tuple[list[Candidate], dict[str, PodUsage]], signal: Signal
) -> None:
    """S2-51."""
    candidates, measured = crowd
    order = ranked(candidates, measured, signal, FileSystems.SHARED, {"a": 0.0, "b": 0.5}.__getitem__)
    plain = ranked(candidates, measured, signal, FileSystems.SHARED)
    assert [each.namespace for each in order] == sorted((each.namespace for each in candidates), reverse=True)
    assert [each for each in order if each.namespace == "a"] == [each for each in plain if each.namespace == "a"]


@given(crowds(), _FILE_SYSTEMS)
def test_under_memory_pressure_nobody_goes_below_its_request_before_somebody_above_it(
    crowd: tuple[list[Candidate], dict[str, PodUsage]], filesystems: FileSystems
) -> None:
    """S3-71 to S3-74, pass after pass until nobody is left that may go; stronger than asked, for any priorities."""
    candidates, measured = crowd
    stats = NodeStats(memory=Observation(0, 1024 * _MI))
    exceeds = []
    while evictions := _finished(
        _SETTINGS, EvictionState(), stats, EvictionInputs.of_pods(filesystems, candidates, measured), 0.0
    ).evictions:
        (gone,) = (eviction.candidate for eviction in evictions)
        assert not gone.is_critical
        if (usage := measured.get(gone.uid)) is not None:
            exceeds.append((usage.memory or 0) * 10**9 > gone.memory_request.nanos)
        candidates = [pod for pod in candidates if pod.uid != gone.uid]
    assert all(pod.is_critical for pod in candidates)
    assert exceeds == sorted(exceeds, reverse=True)


_SETTINGS = EvictionSettings(
    parse_thresholds(
        {"memory.available": "64Mi", "nodefs.available": "64Mi", "pid.available": "2"},
        {"memory.available": "128Mi", "nodefs.inodesFree": "2"},
        {"memory.available": "30s", "nodefs.inodesFree": "60s"},
        {"memory.available": "64Mi"},
        enforces_pods=True,
    ),
    transition_seconds=45.0,
    maximum_grace_seconds=20,
)


@st.composite
def figures(draw: st.DrawFn) -> NodeStats:
    def space() -> Observation | None:
        return draw(st.none() | st.builds(Observation, _AMOUNTS, st.just(1024 * _MI)))

    def count() -> Observation | None:
        return draw(st.none() | st.builds(Observation, st.integers(0, 3), st.just(1000)))

    return NodeStats(space(), space(), FileSystemStats(space(), count()), FileSystemStats(space(), count()), count())


def _finished(
    settings: EvictionSettings, state: EvictionState, stats: NodeStats, inputs: EvictionInputs, now: float
) -> PassOutcome:
    """A pass; what is freed on the node helps nothing."""
    going = eviction_pass(settings, state, stats, inputs, now)
    try:
        next(going)
        going.send(stats)
    except StopIteration as end:
        outcome: PassOutcome = end.value
        return outcome
    raise AssertionError("a pass reclaims once")


@given(crowds(), _FILE_SYSTEMS, st.lists(st.tuples(st.integers(1, 40), figures()), max_size=12))
def test_nobody_goes_unless_a_threshold_was_met_for_all_of_its_grace_period(
    crowd: tuple[list[Candidate], dict[str, PodUsage]],
    filesystems: FileSystems,
    run: list[tuple[int, NodeStats]],
) -> None:
    """S3-36, S3-42, S3-43, S3-55, S3-59 to S3-65."""
    candidates, measured = crowd
    state, now = EvictionState(), 0.0
    short_since: dict[Threshold, float] = {}
    last_short: dict[str, float] = {}
    for seconds, stats in run:
        now += seconds
        outcome = _finished(_SETTINGS, state, stats, EvictionInputs.of_pods(filesystems, candidates, measured), now)
        state = outcome.state
        observations = stats.observations(filesystems)
        short_since = {each: short_since.get(each, now) for each in state.first_met}
        for threshold, since in short_since.items():
            assert threshold.is_unresolved(observations[threshold.signal])
            assert since == state.first_met[threshold]
        assert set(state.past_grace) == {
            each for each, since in short_since.items() if now - since >= each.grace_seconds
        }
        assert len(outcome.evictions) <= 1
        for eviction in outcome.evictions:
            assert state.past_grace
            assert outcome.starved_resource
            assert not eviction.candidate.is_critical
            assert eviction.grace_seconds in (1, _SETTINGS.maximum_grace_seconds)
            candidates = [each for each in candidates if each.uid != eviction.candidate.uid]
        last_short |= dict.fromkeys(_shown_now(state), now)
        shown = {each for each, at in last_short.items() if now - at < _SETTINGS.transition_seconds}
        assert set(state.conditions) == shown


def _shown_now(state: EvictionState) -> set[str]:
    return {
        "MemoryPressure" if "emory" in each.signal else "PIDPressure" if "pid" in each.signal else "DiskPressure"
        for each in state.first_met
    }


@given(crowds(), _FILE_SYSTEMS)
def test_a_node_that_is_short_of_nothing_leaves_everybody_alone(
    crowd: tuple[list[Candidate], dict[str, PodUsage]], filesystems: FileSystems
) -> None:
    candidates, measured = crowd
    plenty, many = Observation(1024 * _MI, 1024 * _MI), Observation(1000, 1000)
    stats = NodeStats(plenty, plenty, FileSystemStats(plenty, many), FileSystemStats(plenty, many), many)
    outcome = _finished(
        _SETTINGS, EvictionState(), stats, EvictionInputs.of_pods(filesystems, candidates, measured), 0.0
    )
    assert outcome == PassOutcome(outcome.state)
    assert not outcome.state.conditions
