"""Whose sample counts, by what a pod says of its start and its readiness."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.controllers.horizontal.pod_groups import grouped, requested
from fairlead.controllers.horizontal.replicas import Incomputable, PodGroups
from fairlead.controllers.horizontal.samples import Sample
from fairlead.runtime.clock import timestamp

NOW = 1767323045.0
WINDOW = 15.0

READY, UNREADY = PodGroups(1), PodGroups(0, unready=frozenset({"web"}))
MISSING, IGNORED = PodGroups(0, missing=frozenset({"web"})), PodGroups(0, ignored=frozenset({"web"}))


def _pod(**status: object) -> Pod:
    return _decoded({"metadata": {"name": "web"}, "status": {"phase": "Running"} | status})


def _decoded(pod: Obj) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def _started(seconds_ago: float, is_ready: str, changed_ago: float) -> Pod:
    ready = {"type": "Ready", "status": is_ready, "lastTransitionTime": timestamp(NOW - changed_ago)}
    return _pod(startTime=timestamp(NOW - seconds_ago), conditions=[ready])


def _group(pod: Pod, resource: str = "cpu", sampled_at: float | None = NOW) -> PodGroups:
    samples = {} if sampled_at is None else {"web": Sample(100, sampled_at, WINDOW)}
    return grouped([pod], samples, resource, NOW)


@pytest.mark.parametrize(
    ("pod", "group"),
    [
        pytest.param(_started(299, "True", 15), READY, id="ready for a whole window"),
        pytest.param(_started(299, "True", 14), UNREADY, id="ready for less than a window"),
        pytest.param(_started(299, "False", 200), UNREADY, id="was ready"),
        pytest.param(_started(299, "Unknown", 200), READY, id="readiness unknown"),
    ],
)
def test_in_the_five_minutes_after_its_start_a_pod_counts_once_it_was_ready_for_a_window(
    pod: Pod, group: PodGroups
) -> None:
    assert _group(pod) == group


@pytest.mark.parametrize(
    ("pod", "group"),
    [
        pytest.param(_started(300, "True", 1), READY, id="just ready"),
        pytest.param(_started(300, "False", 270), READY, id="was ready half a minute after its start"),
        pytest.param(_started(300, "False", 271), UNREADY, id="unready since before that: never ready"),
    ],
)
def test_later_a_pod_counts_unless_it_was_never_ready(pod: Pod, group: PodGroups) -> None:
    assert _group(pod) == group


def test_a_pod_that_does_not_say_when_it_started_or_whether_it_is_ready_is_unready() -> None:
    assert _group(_pod(startTime=timestamp(NOW - 3600))) == UNREADY
    assert _group(_pod(conditions=[{"type": "Ready", "status": "True"}])) == UNREADY


def test_memory_counts_whether_a_pod_is_ready_or_not() -> None:
    assert _group(_started(10, "False", 10), "memory") == READY


def test_a_pod_without_a_sample_is_missing_or_unready_if_it_is_pending() -> None:
    assert _group(_started(3600, "True", 3600), sampled_at=None) == MISSING
    assert _group(_pod(phase="Pending"), sampled_at=None) == UNREADY


def test_failed_and_terminating_pods_are_ignored() -> None:
    terminating = {"metadata": {"name": "web", "deletionTimestamp": timestamp(NOW)}, "status": {"phase": "Pending"}}
    assert _group(_pod(phase="Failed")) == IGNORED
    assert _group(_decoded(terminating), sampled_at=None) == IGNORED


def _requesting(**spec: object) -> Pod:
    def container(name: str, cpu: str) -> Obj:
        return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}}

    inits = [container("sidecar", "50m") | {"restartPolicy": "Always"}, container("setup", "1")]
    containers = [container("web", "100m"), container("log", "10m")]
    return _decoded({"metadata": {"name": "web"}, "spec": {"containers": containers, "initContainers": inits} | spec})


def test_a_pod_requests_what_its_containers_and_sidecars_request() -> None:
    assert requested(_requesting(), "cpu") == 160
    assert requested(_requesting(), "cpu", "sidecar") == 50
    assert requested(_requesting(resources={"requests": {"cpu": "2"}}), "cpu") == 2000
    assert requested(_requesting(resources={"requests": {"cpu": "2"}}), "cpu", "web") == 100


@pytest.mark.parametrize(
    ("resource", "container", "text"),
    [
        ("memory", "", "missing request for memory in container web of Pod web"),
        ("cpu", "setup", "container setup not found in Pod web"),
    ],
)
def test_what_nobody_requests_cannot_be_computed(resource: str, container: str, text: str) -> None:
    with pytest.raises(Incomputable, match=f"^{text}$"):
        requested(_requesting(), resource, container)
