"""Jobs and cron jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.kinds.indexes import count_indexes, first_overlap
from tests.kinds.kind_world import POD, UID, born, made, status_refusals, updated, warnings

ONCE: Obj = {"spec": POD | {"restartPolicy": "Never"}}


def job(**spec: Any) -> tuple[Obj, list[str]]:
    return born("Job", spec={"template": ONCE} | spec)


def test_job_finds_its_pods_by_its_uid() -> None:
    obj, refusals = job()
    labels = {
        "batch.kubernetes.io/controller-uid": UID,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": UID,
        "job-name": "x",
    }
    assert refusals == []
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    assert obj["spec"]["template"]["metadata"]["labels"] == obj["metadata"]["labels"] == labels


def test_job_runs_one_pod_six_times_unless_told_otherwise() -> None:
    spec = job()[0]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert "completions" not in job(parallelism=2)[0]["spec"]


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        (
            {"completionMode": "Indexed"},
            [],
        ),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            {"backoffLimitPerIndex": 1},
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            {"managedBy": "me"},
            ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob"}]}},
            [
                "spec.podFailurePolicy.rules[0]: Invalid value: "
                "specifying one of OnExitCodes and OnPodConditions is required"
            ],
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            [
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: "
                "must not be 0 for the In operator"
            ],
        ),
        (
            {
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "0,5"}]},
            },
            [
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0,5": '
                'error parsing succeededIndexes: too large index: "5"'
            ],
        ),
    ],
)
def test_specs_of_jobs(spec: Obj, refusals: list[str]) -> None:
    assert job(**spec)[1] == refusals


def test_template_of_a_job_stays_but_a_waiting_one_may_be_sent_elsewhere() -> None:
    def to_node(obj: Obj) -> None:
        obj["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}

    _, refusals = updated(job()[0], to_node)
    assert [text.split(": Invalid value")[0] for text in refusals] == ["spec.template"]
    assert updated(job(suspend=True)[0], to_node)[1] == []


def test_indexed_job_is_elastic() -> None:
    old = job(completionMode="Indexed", completions=2, parallelism=2)[0]
    assert updated(old, lambda obj: obj["spec"].update(completions=3, parallelism=3))[1] == []
    _, refusals = updated(old, lambda obj: obj["spec"].update(completions=3))
    assert refusals == ["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"]


def test_finished_job_stays_finished() -> None:
    old = job()[0]
    done = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
    times = {"startTime": "2030-01-01T00:00:00Z", "completionTime": "2030-01-01T00:00:01Z"}
    complete = {"conditions": done, "succeeded": 1} | times
    assert status_refusals(old, complete) == []
    assert status_refusals(old | {"status": complete}, {"succeeded": 1} | times) == [
        'status.completionTime: Invalid value: "2030-01-01T00:00:01Z": '
        "cannot set completionTime when there is no Complete=True condition",
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    ]


def test_begin_of_a_job_that_runs_is_fixed() -> None:
    old = job()[0] | {"status": {"startTime": "2025-01-01T00:00:00Z"}}
    text = "field is immutable for unsuspended job once set"
    later: Obj = {"startTime": "2025-01-02T00:00:00Z"}
    assert status_refusals(old, later) == [f'status.startTime: Invalid value: "2025-01-02T00:00:00Z": {text}']
    assert status_refusals(old, {}) == [f"status.startTime: Invalid value: null: {text}"]
    suspended: Obj = {"conditions": [{"type": "Suspended", "status": "True"}]}
    resumed: Obj = {"conditions": [{"type": "Suspended", "status": "False"}]}
    assert status_refusals(old | {"status": old["status"] | suspended}, later | resumed) == []


def test_times_and_counts_of_a_finished_job() -> None:
    done = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
    times = {"startTime": "2030-01-01T00:00:01Z", "completionTime": "2030-01-01T00:00:00Z"}
    uncounted = {"succeeded": ["a"]}
    assert status_refusals(job()[0], {"conditions": done, "uncountedTerminatedPods": uncounted} | times) == [
        'status.completionTime: Invalid value: "2030-01-01T00:00:00Z": must be equal to or after `startTime`',
        'status.uncountedTerminatedPods: Invalid value: {"Succeeded":["a"],"Failed":null}: '
        "must be empty for finished job",
    ]
    times = {"startTime": "2030-01-01T00:00:01Z", "completionTime": "2030-01-01T00:00:02Z"}
    old = job()[0] | {"status": {"conditions": done} | times}
    assert status_refusals(old, old["status"] | {"completionTime": "2030-01-01T00:00:03Z"}) == [
        'status.completionTime: Invalid value: "2030-01-01T00:00:03Z": field is immutable'
    ]


def test_suspended_job_with_nothing_to_do_finishes_without_having_begun() -> None:
    done = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
    status: Obj = {"conditions": done, "completionTime": "2030-01-01T00:00:00Z"}
    assert status_refusals(job(suspend=True, completions=0)[0], status) == []
    assert status_refusals(job(suspend=True, completions=1)[0], status) == [
        "status.startTime: Required value: startTime is required for finished job"
    ]


def test_long_name_of_a_job_is_refused_as_a_label_of_its_pods() -> None:
    _, refusals = born("Job", meta={"name": "a" * 64}, spec={"template": ONCE})
    text = f'spec.template.labels: Invalid value: "{"a" * 64}": must be no more than 63 bytes'
    assert refusals == [text, text]


def test_policies_are_refused_as_go_prints_them() -> None:
    patterns = [{"type": "DisruptionTarget"}]
    codes = {"operator": "In", "values": [1]}
    rules = [{"action": "Ignore", "onPodConditions": patterns}, {"action": "FailJob", "onExitCodes": codes}]
    assert updated(job()[0], lambda obj: obj["spec"].update(podFailurePolicy={"rules": rules}))[1][-1] == (
        'spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"Ignore","OnExitCodes":null,'
        '"OnPodConditions":[{"Type":"DisruptionTarget","Status":"True"}]},{"Action":"FailJob","OnExitCodes":'
        '{"ContainerName":null,"Operator":"In","Values":[1]},"OnPodConditions":null}]}: field is immutable'
    )
    indexed = job(completionMode="Indexed", completions=1)[0]
    assert updated(indexed, lambda obj: obj["spec"].update(successPolicy={"rules": [{"succeededCount": 1}]}))[1] == [
        'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
        "field is immutable"
    ]


def test_huge_indexed_job_is_warned_of() -> None:
    huge: Obj = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    affinity = {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    template: Obj = {"spec": ONCE["spec"] | affinity}
    text = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    old = made("Job", spec=huge | {"template": template})
    size, label = warnings(old)
    assert size.startswith(f"spec: {text}")
    assert label.startswith("spec.template.spec.nodeSelector")
    assert warnings(old, old) == []
    schedule: Obj = {"schedule": "* * * * *", "jobTemplate": {"spec": huge | {"template": ONCE}}}
    assert warnings(made("CronJob", spec=schedule))[0].startswith(f"spec.jobTemplate.spec: {text}")


INDEX_SETS = st.sets(st.integers(0, 30), min_size=1).map(sorted)


def written(indexes: list[int]) -> str:
    return ",".join(map(str, indexes))


@given(INDEX_SETS, INDEX_SETS)
def test_index_sets_are_counted_and_compared(completed: list[int], failed: list[int]) -> None:
    assert count_indexes(written(completed), 31) == len(completed)
    common = sorted(set(completed) & set(failed))
    assert first_overlap(written(completed), written(failed), 31) == (common[0] if common else None)


def cron_refusals(**spec: Any) -> list[str]:
    template = {"spec": {"template": ONCE}}
    return born("CronJob", spec={"schedule": "* * * * *", "jobTemplate": template} | spec)[1]


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        ({"timeZone": "Europe/Berlin"}, []),
        ({"timeZone": "Mars/Phobos"}, ['spec.timeZone: Invalid value: "Mars/Phobos": unknown time zone Mars/Phobos']),
        (
            {"schedule": "TZ=UTC * * * * *"},
            [
                'spec.schedule: Invalid value: "TZ=UTC * * * * *": '
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            ],
        ),
        (
            {"concurrencyPolicy": "Maybe"},
            ['spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'],
        ),
    ],
)
def test_specs_of_cron_jobs(spec: Obj, refusals: list[str]) -> None:
    assert cron_refusals(**spec) == refusals


def test_name_of_a_cron_job_leaves_room_for_its_jobs() -> None:
    template = {"spec": {"template": ONCE}}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    assert born("CronJob", meta={"name": "a" * 53}, spec=spec)[1] == [
        f'metadata.name: Invalid value: "{"a" * 53}": must be no more than 52 characters'
    ]
    made("CronJob", meta={"name": "a" * 52}, spec=spec)
