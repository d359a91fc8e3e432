"""Usage profiles: which counts for a pod, what their traces mean, and what is said of those that make no sense."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.builtin import EVENTS
from fairlead.api.errors import Invalid
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.events import EventRecorder
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.usage.declared import pod_usage
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.objects import USAGE_PROFILES, UsageProfile, follow, profile_of
from fairlead.sim.usage.profiles import Profiles
from fairlead.sim.usage.traces import csv_series, prometheus_series


def profile(name: str, **spec: Any) -> Obj:
    selected = {"selector": {"matchLabels": {"app": "a"}}, "usage": {"memory": "1Mi"}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "sim.fairlead.dev/v1alpha1",
        "kind": "UsageProfile",
        "metadata": metadata,
        "spec": selected | spec,
    }


def read(**spec: Any) -> UsageProfile:
    return msgspec.convert(profile("p", **spec), UsageProfile)


def pod(*containers: str, annotations: dict[str, str] | None = None, **labels: str) -> Pod:
    metadata = {"name": "a", "namespace": "default", "labels": labels, "annotations": annotations or {}}
    spec = {"containers": [{"name": name, "image": name} for name in containers or ("web",)]}
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}), type=Pod)


def text_of(profiles: Profiles, pod: Pod, container: str = "web") -> str:
    return pod_usage(pod, profiles).containers[container][Measure.MEMORY].text


def known(*objects: UsageProfile) -> Profiles:
    profiles = Profiles()
    for obj in objects:
        profiles.put(profile_of(obj)[0])
    return profiles


def test_of_several_profiles_the_first_by_name_counts() -> None:
    named = [msgspec.convert(profile(name, usage={"memory": text}), UsageProfile) for name, text in
             (("c", "3Mi"), ("a", "1Mi"), ("b", "2Mi"))]  # fmt: skip
    profiles = known(*named)
    assert text_of(profiles, pod(app="a")) == "1Mi"
    profiles.remove("default", "a")
    assert text_of(profiles, pod(app="a")) == "2Mi"
    assert text_of(profiles, pod(app="b")) == "8Mi"


def test_a_profile_may_be_about_some_containers() -> None:
    profiles = known(read(containers=["db"]))
    both = pod("web", "db", app="a")
    assert text_of(profiles, both, "db") == "1Mi"
    assert text_of(profiles, both, "web") == "8Mi"


def test_an_annotation_may_name_a_trace_of_the_profile_that_selects_the_pod() -> None:
    profiles = known(read(traces={"day": {"csv": "0,1Mi\n60,2Mi"}}))
    usage = pod_usage(pod(annotations={"sim.fairlead.dev/usage-memory": "trace(day)"}, app="a"), profiles)
    model = usage.model("web", Measure.MEMORY)
    assert model is not None
    assert model.at(61.0, 0.0) == 2**21
    assert not usage.problems


def test_what_makes_no_sense_is_named_and_the_rest_counts() -> None:
    found, problems = profile_of(
        read(usage={"memory": "1Mi", "cpu": "trace(none)", "mem": "1"}, traces={"bad": {"csv": "0,1"}, "none": {}})
    )
    assert dict(found.usage) == {"memory": "1Mi"}
    assert problems == [
        "spec.traces[bad]: a trace has from 2 to 20160 rows, this one 1",
        "spec.traces[none]: a trace is either csv or prometheus",
        "spec.usage[cpu]: trace: field 'name': there is no trace 'none': no profile brings any",
        "spec.usage[mem]: there is no measure 'mem': there are cpu, memory, child-memory, active-file, inactive-file, "
        "rootfs, logs, inodes, pids",
    ]


def test_a_selector_that_makes_no_sense_selects_nothing() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}
    found, problems = profile_of(read(selector=selector))
    assert problems == ['spec.selector: "Like" is not a valid label selector operator']
    assert not found.selector.matches({"app": "a"})


def test_csv_times_are_seconds_or_dates_from_the_first_row() -> None:
    seconds = csv_series("seconds,value\n100,1Gi\n160,0.5Gi\n")
    dates = csv_series("# of Monday\n2026-01-01T00:00:00Z,1Gi\n2026-01-01T01:01:00+01:00,0.5Gi\n")
    assert seconds.seconds == dates.seconds == (0.0, 60.0)
    assert seconds.amounts == dates.amounts == (2.0**30, 2.0**29)


def test_an_answer_of_prometheus_is_a_trace() -> None:
    result = [{"metric": {"pod": "web"}, "values": [[1_700_000_000, "1.5e+09"], [1_700_000_060.5, "7"]]}]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    series = prometheus_series(json.dumps(answer))
    assert series.seconds == (0.0, 60.5)
    assert series.amounts == (1.5e9, 7.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1", "line 2: '1' is no row: write TIME,AMOUNT"),
        ("0,1\nnoon,1", "line 2: 'noon' is neither seconds nor a time such as 2026-01-01T14:00:00Z"),
        ("0,1\n2026-01-01T00:00:00,1", "line 2: '2026-01-01T00:00:00' is neither seconds nor a time such as "
                                       "2026-01-01T14:00:00Z"),
        ("0,1\n1,lots", "line 2: 'lots' is no amount: write one such as 300Mi, 250m or 1e9"),
        ("0,1\n1,-1", "row 2: -1 at 1 is not an amount at a time"),
        ("0,1\nnan,1", "row 2: 1 at nan is not an amount at a time"),
        ("0,1\n0.5,2", "row 2: rows must follow each other by a second at least"),
        ("0,1\n1e12,2", "a trace lasts at most a century"),
    ],
)  # fmt: skip
def test_a_csv_that_makes_no_sense_is_named_by_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        csv_series(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"status": "error", "error": "parse error"}, "Prometheus answered with status 'error': parse error"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}},
         "a result of type 'vector' has no course: ask for a range (query_range)"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}},
         "the answer has 0 series: a trace is exactly one"),
        ({"status": "success", "data": {"resultType": "matrix", "result": [{"values": [[0, "1"], [1, "NaN"]]}]}},
         "row 2: nan at 1 is not an amount at a time"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_trace_says_why(answer: Obj, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        prometheus_series(json.dumps(answer))
    assert str(refusal.value) == message


@given(st.text(max_size=60) | st.lists(st.sampled_from(["0", "1", ",", "\n", "1e400", "{", "}", "Z"])).map("".join))
def test_any_text_is_a_trace_or_an_error_that_says_why(text: str) -> None:
    for read_series in (csv_series, prometheus_series):
        try:
            series = read_series(text)
        except ValueError as error:
            assert str(error)
        else:
            assert series.seconds[0] == 0.0


def test_an_answer_nested_without_end_is_no_trace() -> None:
    nested = "[" * 500_000 + "]" * 500_000
    with pytest.raises(ValueError, match="this is no answer of Prometheus"):
        prometheus_series(f'{{"status": "success", "data": {nested}}}')


def test_a_cluster_knows_the_kind_and_follows_its_profiles() -> None:
    """Imported ones, those of kubectl, changes; and an event on a profile that makes no sense."""

    async def lived() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape())), imported=(profile("imported"),))
        async with simulation(settings) as (api, informers):
            recorder, profiles, changes = EventRecorder(api, "kubelet"), Profiles(), []
            follow(profiles, informers, recorder, lambda namespace: changes.append(1))
            writing = asyncio.create_task(recorder.run())
            await asyncio.sleep(5)
            assert text_of(profiles, pod(app="a")) == "1Mi"
            await api.create(USAGE_PROFILES, profile("another", usage={"memory": "2Mi", "cpu": "lots"}), "default")
            await asyncio.sleep(5)
            assert text_of(profiles, pod(app="a")) == "2Mi"
            await api.patch(USAGE_PROFILES, "another", "default", {"spec": {"usage": {"memory": "3Mi"}}})
            await asyncio.sleep(5)
            assert text_of(profiles, pod(app="a")) == "3Mi"
            await api.delete(USAGE_PROFILES, "another", "default")
            await asyncio.sleep(5)
            assert text_of(profiles, pod(app="a")) == "1Mi"
            assert len(changes) == 4
            told = [entry.obj() for entry in (await api.list(EVENTS, "default")).items]
            (event,) = [event for event in told if event["reason"] == "InvalidUsage"]
            assert event["involvedObject"]["name"] == "another"
            assert event["message"].startswith("spec.usage[cpu]: 'lots' is no amount")
            with pytest.raises(Invalid):
                await api.create(USAGE_PROFILES, profile("empty", selector=None), "default")
            writing.cancel()

    run_virtual(lived())
