"""What a simulated pod does on its node (sim/containers.py), without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.api.encoded import encoded
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.golang.durations import parse_seconds
from fairlead.node.configuration.load import configure
from fairlead.node.container_sync import Note
from fairlead.node.pod_lifecycle import PodRun, PodStep
from fairlead.node.restarts import LONGEST_SECONDS
from fairlead.node.start_requirements import NOTHING, ConfigSource, Found
from fairlead.node.status import PodAddresses
from fairlead.runtime.clock import timestamp
from fairlead.sim.behaviour import (
    EXIT_CODE,
    FAILS_LIVENESS_SECONDS,
    LIFETIME_SECONDS,
    PULL_ERROR,
    READY_SECONDS,
    START_SECONDS,
    STARTED_SECONDS,
    STOP_EXIT_CODE,
    STOP_SECONDS,
    UNREADY,
    SimulatedRuntime,
)
from tests.node.golden import each_of, read
from tests.node.restarts import container_of

NOW = 1_767_225_600.0
MOMENT = "2026-01-01T00:00:00Z"
PLACE = PodAddresses("172.16.0.1", "10.64.0.1")


def pod(annotations: dict[str, str] | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], **spec},
        "status": status or {"phase": "Pending"},
    }


class World:
    """A pod on its node, with the statuses that its steps gave it."""

    def __init__(self, subject: Obj, found: Found = NOTHING, longest_back_off: float = LONGEST_SECONDS) -> None:
        self.obj, self.found = subject, found
        runtime = SimulatedRuntime(lambda pod, container, started_at: None, lambda *_: 0)
        self.run = PodRun(runtime, self.pod, 1, NOW, longest_back_off)
        self.notes: list[Note] = []

    @property
    def pod(self) -> Pod:
        return encoded(self.obj).view(Pod)

    def look(self, after: float = 0.0) -> PodStep:
        step = self.run.step(self.pod, PLACE, NOW + after, self.found)
        self.notes += self.run.reported()
        if step.status is not None:
            self.obj = self.obj | {"status": self.obj["status"] | step.status}
        return step

    def delete(self, after: float = 0.0, grace: int = 30) -> None:
        self.obj["metadata"] |= {"deletionTimestamp": MOMENT, "deletionGracePeriodSeconds": grace}
        self.run.deleted_at = NOW + after

    @property
    def phase(self) -> str:
        return str(self.obj["status"]["phase"])

    @property
    def conditions(self) -> dict[str, str]:
        return {condition["type"]: condition["status"] for condition in self.obj["status"]["conditions"]}

    def container(self, name: str = "c") -> Obj:
        status = self.obj["status"]
        statuses = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
        found: Obj = next(status for status in statuses if status["name"] == name)
        return found

    def waiting(self, name: str = "c") -> tuple[str, str]:
        state = self.container(name)["state"]["waiting"]
        return state["reason"], state.get("message", "")

    def events(self, reason: str) -> list[str]:
        return [note.message for note in self.notes if note.reason == reason]


def running(restarts: int = 0, since: str = MOMENT) -> Obj:
    state = {"running": {"startedAt": since}}
    return {
        "phase": "Running",
        "startTime": since,
        "podIP": "10.64.0.9",
        "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
    }


def test_the_status_follows_the_generation_also_when_nothing_else_changes() -> None:
    world = World(pod({STOP_SECONDS: "5"}))
    world.obj["metadata"]["generation"] = 1
    world.look()
    world.look(2.0)
    assert world.obj["status"]["observedGeneration"] == 1 and world.look(3.0).status is None
    world.obj["metadata"]["generation"] = 2
    world.look(4.0)
    assert world.obj["status"]["observedGeneration"] == 2
    assert {each["observedGeneration"] for each in world.obj["status"]["conditions"]} == {2}
    assert world.look(5.0).status is None
    world.obj["metadata"]["generation"] = 3
    world.delete(6.0)
    world.look(6.0)
    assert (world.phase, world.obj["status"]["observedGeneration"]) == ("Running", 3)
    assert world.look(7.0).status is None


def test_an_ephemeral_container_joins_a_pod_that_runs_and_counts_for_nothing() -> None:
    world = World(pod())
    world.look()
    world.look(2.0)
    assert world.obj["status"]["phase"] == "Running"
    joined = {"name": "debug", "image": "i", "targetContainerName": "c"}
    world.obj["metadata"]["annotations"] = {f"debug.{LIFETIME_SECONDS}": "5", f"debug.{EXIT_CODE}": "3"}
    world.obj["spec"]["ephemeralContainers"] = [joined]
    world.look(3.0)
    (shown,) = world.obj["status"]["ephemeralContainerStatuses"]
    assert "running" in shown["state"] and not shown["ready"]
    assert [note.path for note in world.notes if note.reason == "Started"][-1] == "spec.ephemeralContainers{debug}"
    world.look(9.0)
    world.look(30.0)
    (shown,) = world.obj["status"]["ephemeralContainerStatuses"]
    assert shown["state"]["terminated"]["exitCode"] == 3 and shown["restartCount"] == 0
    assert world.obj["status"]["phase"] == "Running"


def test_a_bound_pod_runs_at_once_and_is_ready() -> None:
    world = World(pod())
    world.look()
    status = world.obj["status"]
    assert (status["phase"], status["podIP"], status["hostIP"]) == ("Running", "10.64.0.1", "172.16.0.1")
    assert world.conditions["Ready"] == "True"
    assert world.container()["state"] == {"running": {"startedAt": MOMENT}}
    assert world.look(1) == PodStep()


def test_a_pod_that_starts_slowly_is_looked_at_again_when_it_is_due() -> None:
    slow = World(pod({START_SECONDS: "5"}))
    assert slow.look(1) == PodStep(wake_at=NOW + 5)
    assert slow.look(5).status is not None


def test_a_host_network_pod_has_the_address_of_its_node() -> None:
    world = World(pod(hostNetwork=True))
    world.look()
    assert world.obj["status"]["podIP"] == "172.16.0.1"


@pytest.mark.parametrize("annotations", [{}, {START_SECONDS: "60"}], ids=["running", "starting"])
def test_a_pod_that_has_been_active_for_too_long_is_ended(annotations: dict[str, str]) -> None:
    world = World(pod(annotations | {STOP_SECONDS: "3"}, activeDeadlineSeconds=20, terminationGracePeriodSeconds=5))
    assert world.look().wake_at == NOW + 20
    world.look(19.9)
    assert world.phase != "Failed"
    step = world.look(20.0)
    if annotations == {}:
        assert step.wake_at == NOW + 23
        world.look(23.0)
    status = world.obj["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert world.events("DeadlineExceeded") == [status["message"]]
    assert world.look(60) == PodStep()


def test_a_pod_that_ends_before_its_deadline_has_ended_well() -> None:
    world = World(pod({LIFETIME_SECONDS: "5"}, restartPolicy="Never", activeDeadlineSeconds=20))
    assert world.look().wake_at == NOW + 5
    world.look(5.0)
    assert (world.phase, world.look(21.0)) == ("Succeeded", PodStep())


def test_whoever_takes_up_a_pod_keeps_which_container_had_ended() -> None:
    """Also when it is restarted then: an agent was away in between."""
    ended = {"exitCode": 1, "reason": "Error", "startedAt": MOMENT, "finishedAt": MOMENT, "containerID": "test://1"}
    status = running() | {"podIPs": [{"ip": "10.64.0.9"}]}
    status["containerStatuses"][0] |= {"state": {"terminated": ended}, "containerID": "test://1"}
    world = World(pod(status=status))
    world.look()
    world.look(20.0)
    assert "running" in world.container()["state"]
    assert world.container()["lastState"]["terminated"] == ended


@pytest.mark.parametrize(("restarts", "then"), [(3, 4), (2**31 - 1, 2**31 - 1)])
def test_a_restart_count_stays_what_a_status_can_say(restarts: int, then: int) -> None:
    world = World(pod({LIFETIME_SECONDS: "1"}, running(restarts)))
    world.look()
    world.look(1)
    world.look(400)
    assert world.container()["restartCount"] == then


@pytest.mark.parametrize(("code", "phase", "reason"), [("0", "Succeeded", "Completed"), ("3", "Failed", "Error")])
def test_a_pod_ends_with_its_declared_lifetime(code: str, phase: str, reason: str) -> None:
    mortal = World(pod({LIFETIME_SECONDS: "60", EXIT_CODE: code}, running(), restartPolicy="Never"))
    assert mortal.look(59) == PodStep(wake_at=NOW + 60)
    mortal.look(60)
    ended = mortal.container()["state"]["terminated"]
    assert (mortal.phase, ended["exitCode"], ended["reason"]) == (phase, int(code), reason)
    assert mortal.conditions["Ready"] == "False"


@each_of(read("restart_backoff"))
def test_containers_crash_as_recorded(row: dict[str, Any]) -> None:
    """S0-64, golden/node/restart_backoff.yaml: when each run begins, and what is told in between."""
    name = container_of(row)
    longest = configure(row["config"]).longest_back_off
    world = World(row["pod"] | {"status": {"phase": "Pending"}}, longest_back_off=longest)
    world.obj["metadata"]["annotations"] = {}
    for run, expected in zip(row["runs"], row["expect"]["restarts"], strict=False):
        own = {
            f"{name}.{LIFETIME_SECONDS}": str(parse_seconds(run["for"])),
            f"{name}.{EXIT_CODE}": str(run["exitCode"]),
        }
        world.obj["metadata"]["annotations"] = own
        began, ended = parse_seconds(expected["startedAt"]), parse_seconds(expected["exitedAt"])
        world.look(began)
        step = world.look(ended)
        if expected["restartedAt"] == "never":
            assert "terminated" in world.container(name)["state"]
            break
        if "waitingReason" in expected:
            assert world.waiting(name) == (expected["waitingReason"], expected["waitingMessage"])
            assert step.wake_at == NOW + parse_seconds(expected["restartedAt"])
            assert world.container(name)["lastState"]["terminated"]["exitCode"] == run["exitCode"]
    assert set(world.events("BackOff")) == {event["message"] for event in row["expect"]["events"]}


def test_a_container_that_crashes_for_ever_counts_on() -> None:
    """The delay was a power of two, which was too large for a number after 1,024 restarts."""
    world = World(pod({LIFETIME_SECONDS: "1", EXIT_CODE: "1"}))
    at: float = 0.0
    while (step := world.look(at)).wake_at is not None and world.container()["restartCount"] < 1100:
        at = step.wake_at - NOW
    assert world.container()["restartCount"] == 1100
    assert at == pytest.approx(1100 * 301, rel=0.01)


@pytest.mark.parametrize("moment", [None, "0001-01-01T00:00:00Z"])
def test_a_container_of_which_nobody_knows_when_it_ended_runs_again(moment: str | None) -> None:
    """As a dump may show it: a kubelet lost sight of the container."""
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": moment, "finishedAt": moment}
    states = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": lost}}
    world = World(pod(status=running() | {"containerStatuses": [{"name": "c", "restartCount": 3, **states}]}))
    world.look()
    assert world.container()["restartCount"] == 4
    assert world.container()["lastState"]["terminated"]["finishedAt"] is None
    assert world.phase == "Running"


def test_the_containers_of_a_pod_die_one_by_one_and_every_run_has_an_id_of_its_own() -> None:
    containers = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
    world = World(pod({f"d.{LIFETIME_SECONDS}": "5", f"d.{EXIT_CODE}": "1"}, containers=containers))
    world.look()
    first, beside = world.container("d")["containerID"], world.container("c")
    world.look(5)
    assert world.container("d")["restartCount"] == 1
    assert world.container("d")["lastState"]["terminated"]["containerID"] == first
    assert world.container("c") == beside
    world.look(10)
    assert world.waiting("d")[0] == "CrashLoopBackOff"
    assert (world.phase, world.conditions["Ready"]) == ("Running", "False")
    ids = {first, world.container("d")["containerID"], beside["containerID"]}
    assert len(ids) == 3
    assert all(id_.startswith("containerd://") and len(id_) == 77 for id_ in ids)


def test_a_deleted_pod_shows_how_its_containers_ended_and_is_gone() -> None:
    stopping = World(pod({STOP_SECONDS: "10"}, running()))
    stopping.delete()
    assert stopping.look(9) == PodStep(wake_at=NOW + 10)
    assert stopping.events("Killing") == ["Stopping container c"]
    assert stopping.look(10).is_gone
    assert stopping.phase == "Failed"
    assert stopping.container()["state"]["terminated"]["exitCode"] == 143
    assert stopping.events("Killing") == ["Stopping container c"], "once"


def test_a_deleted_pod_is_killed_when_its_grace_is_over() -> None:
    stubborn = World(pod({STOP_SECONDS: "100"}, running()))
    stubborn.delete()
    assert stubborn.look(10) == PodStep(wake_at=NOW + 30)
    stubborn.look(30)
    assert stubborn.container()["state"]["terminated"]["exitCode"] == 137


def test_a_pod_whose_containers_stop_well_has_succeeded() -> None:
    polite = World(pod({STOP_EXIT_CODE: "0"}, running()))
    polite.delete()
    polite.look()
    assert polite.phase == "Succeeded"


def test_a_deleted_pod_that_never_ran_has_failed() -> None:
    world = World(pod(containers=[{"name": "c", "image": "nowhere.invalid/i"}]))
    world.look()
    world.delete(1)
    assert world.look(1).is_gone
    assert world.phase == "Failed"
    assert world.container()["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_conditions_keep_their_time_while_they_hold_and_those_of_others_stay() -> None:
    status = running() | {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "X"},
        ]
    }
    world = World(pod({LIFETIME_SECONDS: "1"}, status, restartPolicy="Never"))
    world.look(1)
    by_type = {condition["type"]: condition for condition in world.obj["status"]["conditions"]}
    assert by_type["PodScheduled"]["lastTransitionTime"] == "2025-12-31T00:00:00Z"
    assert by_type["DisruptionTarget"]["reason"] == "X"


def test_init_containers_come_through_in_turn() -> None:
    init = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    world = World(pod({f"b.{LIFETIME_SECONDS}": "5"}, initContainers=init))
    world.look()
    assert (world.phase, world.waiting()[0]) == ("Pending", "PodInitializing")
    assert world.container("a")["state"]["terminated"]["exitCode"] == 0
    assert world.conditions["Initialized"] == "False"
    world.look(5)
    assert (world.phase, world.conditions["Initialized"]) == ("Running", "True")


def test_an_init_container_that_fails_holds_the_pod_up() -> None:
    world = World(pod({f"a.{EXIT_CODE}": "1"}, initContainers=[{"name": "a", "image": "i"}]))
    at: float = 0.0
    while world.look(at).wake_at == NOW + at:
        pass
    assert world.waiting("a") == ("CrashLoopBackOff", "back-off 10s restarting failed container=a pod=p_ns(u)")
    assert (world.phase, world.waiting()[0]) == ("Pending", "PodInitializing")


def test_an_init_container_that_fails_for_good_fails_the_pod() -> None:
    init = [{"name": "a", "image": "i"}]
    world = World(pod({f"a.{EXIT_CODE}": "7"}, initContainers=init, restartPolicy="Never"))
    world.look()
    assert world.phase == "Failed"
    assert world.container("a")["state"]["terminated"]["exitCode"] == 7


def restarting_all(code: int, annotations: dict[str, str], init: Sequence[Obj] = ()) -> Obj:
    """A pod where `trigger` makes all run anew when it ends with that code."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [code]}}]
    trigger = {"name": "trigger", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    found = pod(annotations)
    containers = [{"name": "other", "image": "i"}, {"name": "done", "image": "i", "restartPolicy": "Never"}, trigger]
    found["spec"] |= {"restartPolicy": "Never", "initContainers": [*init], "containers": containers}
    return found


def test_all_containers_run_anew_when_one_ends_as_its_rule_says() -> None:
    """KEP-5532: init containers first, whatever the others' policies, and all count a restart."""
    world = World(
        restarting_all(
            42,
            {f"done.{LIFETIME_SECONDS}": "5", f"trigger.{LIFETIME_SECONDS}": "60", f"trigger.{EXIT_CODE}": "42"}
            | {f"setup.{LIFETIME_SECONDS}": "3", f"other.{STOP_SECONDS}": "30"},
            init=[{"name": "setup", "image": "i"}],
        )
    )
    for after in (0, 3, 8):
        world.look(after)
    assert (world.phase, world.conditions["AllContainersRestarting"]) == ("Running", "False")
    assert world.look(63).wake_at == NOW + 65
    assert (world.phase, world.conditions["AllContainersRestarting"]) == ("Running", "True")
    condition = next(each for each in world.obj["status"]["conditions"] if each["type"] == "AllContainersRestarting")
    assert condition["reason"] == "RestartAllContainersStarted"
    assert condition["message"] == "container exited with restart policy rule"
    assert world.container("trigger")["state"]["terminated"]["exitCode"] == 42
    world.look(63)

    world.look(65)
    world.look(65)
    why = {"reason": "RestartingAllContainers"}
    removed = why | {"message": "The container is removed because RestartAllContainers in place"}
    assert world.conditions["AllContainersRestarting"] == "False"
    assert (world.phase, world.conditions["Initialized"]) == ("Pending", "True")
    assert "running" in world.container("setup")["state"]
    for name in ("setup", "other", "done", "trigger"):
        found = world.container(name)
        ended = {"exitCode": 137, "startedAt": None, "finishedAt": None} | removed
        assert (found["restartCount"], found["lastState"]["terminated"]) == (1, ended), name
    assert world.waiting("other")[0] == "PodInitializing"

    world.look(68)
    assert (world.phase, world.conditions["AllContainersRestarting"]) == ("Running", "False")
    assert {world.container(name)["restartCount"] for name in ("setup", "other", "done", "trigger")} == {1}
    assert world.events("Killing") == ["killing"]


def test_a_pod_that_runs_anew_again_and_again_takes_time_for_it() -> None:
    """Its containers have no back-off, being removed; a kubelet needs a moment all the same."""
    world = World(restarting_all(0, {f"trigger.{LIFETIME_SECONDS}": "0"}))
    at: float = 0.0
    for _ in range(20):
        step = world.look(at)
        assert step.wake_at is not None
        at = step.wake_at - NOW
    assert at >= 6
    assert world.container("trigger")["restartCount"] <= at


def test_a_node_that_comes_back_goes_on_to_run_a_pod_anew() -> None:
    world = World(restarting_all(42, {f"trigger.{LIFETIME_SECONDS}": "60", f"trigger.{EXIT_CODE}": "42"}))
    world.look(0)
    world.look(60)
    assert world.conditions["AllContainersRestarting"] == "True"
    later = World(world.obj)
    for after in (70, 71, 71):
        later.look(after)
    assert later.conditions["AllContainersRestarting"] == "False"
    assert {later.container(name)["restartCount"] for name in ("other", "trigger")} == {1}
    assert "running" in later.container("trigger")["state"]


def test_a_sidecar_is_stopped_when_the_others_have_ended() -> None:
    init = [{"name": "side", "image": "i", "restartPolicy": "Always"}]
    world = World(pod({LIFETIME_SECONDS: "5"}, initContainers=init, restartPolicy="Never"))
    world.look()
    assert "running" in world.container("side")["state"]
    world.look(5)
    assert world.phase == "Succeeded"
    assert "terminated" in world.container("side")["state"]


@pytest.mark.parametrize(("grace", "ends"), [(30, (5, 10, 15)), (7, (5, 7, 9))])
def test_sidecars_of_a_deleted_pod_end_after_the_others_and_the_last_one_first(
    grace: int, ends: tuple[int, ...]
) -> None:
    """Each has what is left of the grace period, and two seconds at least."""
    init = [{"name": name, "image": "i", "restartPolicy": "Always"} for name in ("first", "second")]
    stops = {f"{name}.{STOP_SECONDS}": "5" for name in ("c", "first", "second")}
    world = World(pod(stops, initContainers=init))
    world.look()
    world.delete(10, grace)
    assert world.look(10).wake_at == NOW + 10 + max(ends)
    world.look(10 + max(ends))
    ended = [world.container(name)["state"]["terminated"]["finishedAt"] for name in ("c", "second", "first")]
    assert ended == [timestamp(NOW + 10 + end) for end in ends]


def test_an_image_that_is_not_to_be_had_is_asked_for_again_and_again() -> None:
    world = World(pod(containers=[{"name": "c", "image": "registry.invalid/web:1"}]))
    assert world.look().wake_at == NOW + 1
    reason, message = world.waiting()
    assert reason == "ErrImagePull"
    assert message.endswith("registry.invalid/web:1: not found")
    assert world.look(1).wake_at == NOW + 10
    assert world.waiting() == (
        "ImagePullBackOff",
        f'Back-off pulling image "registry.invalid/web:1": ErrImagePull: {message}',
    )
    assert world.look(10).wake_at == NOW + 11
    assert world.waiting()[0] == "ErrImagePull"
    assert world.look(11).wake_at == NOW + 30, "twenty seconds after the second try"
    assert world.events("BackOff") == ['Back-off pulling image "registry.invalid/web:1"'] * 2
    assert world.events("Failed")[:2] == [
        f'Failed to pull image "registry.invalid/web:1": {message}',
        "Error: ErrImagePull",
    ]
    world.obj["spec"]["containers"][0]["image"] = "web:1"
    world.look(12)
    assert world.phase == "Running"


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ],
)
def test_why_an_image_is_not_pulled_may_have_a_reason_of_its_own(reason: str, why: str) -> None:
    image = "web:1"
    world = World(pod({PULL_ERROR: f"{reason}: no route to host"}, containers=[{"name": "c", "image": image}]))
    world.look()
    message = f"image pull failed for {image} because {why}: no route to host"
    assert world.waiting() == (reason, message)
    assert world.events("Failed") == [f'Failed to pull image "{image}": {reason}: no route to host', f"Error: {reason}"]
    world.look(1)
    assert world.waiting() == ("ImagePullBackOff", f'Back-off pulling image "{image}": {reason}: {message}')


CONFIG, SECRET = ConfigSource("ConfigMap", "x"), ConfigSource("Secret", "x")


def env(kind: str, key: str, **more: Any) -> Obj:
    return {"name": "V", "valueFrom": {kind: {"name": "x", "key": key, **more}}}


@pytest.mark.parametrize(
    ("part", "found", "problem"),
    [
        ({"env": [env("configMapKeyRef", "k")]}, {CONFIG: None}, 'configmap "x" not found'),
        ({"env": [env("secretKeyRef", "k")]}, {SECRET: None}, 'secret "x" not found'),
        ({"env": [env("configMapKeyRef", "k")]}, {CONFIG: frozenset()}, "couldn't find key k in ConfigMap ns/x"),
        ({"env": [env("secretKeyRef", "k")]}, {SECRET: frozenset()}, "couldn't find key k in Secret ns/x"),
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, {CONFIG: None}, 'configmap "x" not found'),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, {SECRET: None}, 'secret "x" not found'),
        ({"envFrom": [{"secretRef": {"name": "x", "optional": True}}]}, {SECRET: None}, ""),
        ({"env": [env("configMapKeyRef", "k", optional=True)]}, {CONFIG: frozenset()}, ""),
        ({"env": [env("configMapKeyRef", "k")]}, {CONFIG: frozenset({"k"})}, ""),
    ],
)
def test_a_container_waits_for_what_its_environment_is_made_of(part: Obj, found: Found, problem: str) -> None:
    world = World(pod(containers=[{"name": "c", "image": "i", **part}]), found)
    world.look()
    if not problem:
        assert world.phase == "Running"
        return
    assert (world.phase, *world.waiting()) == ("Pending", "CreateContainerConfigError", problem)
    assert world.events("Failed") == [f"Error: {problem}"]
    assert world.look(60) == PodStep(), "told once"
    world.found = {source: frozenset({"k"}) for source in found}
    world.look(61)
    assert world.phase == "Running"


@pytest.mark.parametrize(
    ("volume", "found", "problem"),
    [
        ({"configMap": {"name": "x"}}, {CONFIG: None}, 'configmap "x" not found'),
        ({"secret": {"secretName": "x"}}, {SECRET: None}, 'secret "x" not found'),
        ({"projected": {"sources": [{"secret": {"name": "x"}}]}}, {SECRET: None}, 'secret "x" not found'),
        (
            {"configMap": {"name": "x", "items": [{"key": "k", "path": "k"}]}},
            {CONFIG: frozenset()},
            "configmap references non-existent config key: k",
        ),
        (
            {"secret": {"secretName": "x", "items": [{"key": "k", "path": "k"}]}},
            {SECRET: frozenset()},
            "references non-existent secret key: k",
        ),
        ({"configMap": {"name": "x", "optional": True}}, {CONFIG: None}, ""),
        ({"emptyDir": {}}, {}, ""),
    ],
)
def test_a_pod_waits_for_what_its_volumes_show(volume: Obj, found: Found, problem: str) -> None:
    world = World(pod(volumes=[{"name": "v", **volume}]), found)
    world.look()
    if not problem:
        assert world.phase == "Running"
        return
    assert (world.phase, *world.waiting()) == ("Pending", "ContainerCreating", "")
    assert world.conditions["PodReadyToStartContainers"] == "False"
    assert world.events("FailedMount") == [f'MountVolume.SetUp failed for volume "v" : {problem}']
    assert world.look(60) == PodStep(), "told once"
    world.found = {source: frozenset({"k"}) for source in found}
    world.look(61)
    assert world.phase == "Running"


def probed(annotations: dict[str, str], **probe: Any) -> World:
    target = {"httpGet": {"port": 80}, "periodSeconds": 10} | probe
    return World(pod(annotations, containers=[{"name": "c", "image": "i", "readinessProbe": target}]))


def test_a_container_is_ready_once_its_probe_has_succeeded() -> None:
    world = probed({READY_SECONDS: "12"}, initialDelaySeconds=5)
    assert world.look().wake_at == NOW + 10
    assert (world.container()["ready"], world.container()["started"], world.conditions["Ready"]) == (
        False,
        True,
        "False",
    )
    assert world.events("Unhealthy") == []
    assert world.look(10).wake_at == NOW + 20
    assert world.events("Unhealthy") == ["Readiness probe failed: HTTP probe failed with statuscode: 503"]
    world.look(20)
    assert (world.container()["ready"], world.conditions["ContainersReady"], world.conditions["Ready"]) == (
        True,
        "True",
        "True",
    )
    assert world.look(30) == PodStep()


def test_a_probe_without_delay_succeeds_at_once_and_as_often_as_it_must() -> None:
    world = probed({})
    assert world.look().wake_at is None
    assert world.container()["ready"]
    thorough = probed({}, successThreshold=3)
    assert thorough.look().wake_at == NOW + 20


def test_an_unready_container_says_so_once_and_is_not_looked_at_again() -> None:
    world = probed({UNREADY: "true"})
    world.look()
    assert world.conditions["Ready"] == "False"
    ready = next(each for each in world.obj["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("ContainersNotReady", "containers with unready status: [c]")
    assert len(world.events("Unhealthy")) == 1
    assert world.look(1) == PodStep()


def starting(annotations: dict[str, str], *, readiness: Obj | None = None, **probe: Any) -> World:
    """With a startup probe every 10 seconds that may fail twice."""
    container = {"name": "c", "image": "i", "startupProbe": {"httpGet": {"port": 80}, "failureThreshold": 3} | probe}
    if readiness is not None:
        container["readinessProbe"] = {"httpGet": {"port": 80}} | readiness
    return World(pod(annotations, containers=[container]))


def started_and_ready(world: World) -> tuple[bool, bool]:
    return world.container()["started"], world.container()["ready"]


def test_a_container_has_started_once_its_startup_probe_succeeds_and_is_ready_then() -> None:
    world = starting({STARTED_SECONDS: "12"}, initialDelaySeconds=5)
    assert world.look().wake_at == NOW + 10
    assert (world.phase, world.conditions["Ready"], started_and_ready(world)) == ("Running", "False", (False, False))
    assert world.look(10).wake_at == NOW + 20
    assert world.look(20).wake_at is None
    assert (world.conditions["Ready"], started_and_ready(world)) == ("True", (True, True))
    assert world.events("Unhealthy") == ["Startup probe failed: HTTP probe failed with statuscode: 503"]
    assert world.events("Killing") == []
    assert world.look(40) == PodStep()


def test_the_last_startup_probe_may_be_the_one_that_succeeds() -> None:
    world = starting({STARTED_SECONDS: "20"})
    for seconds in (0, 10, 20):
        world.look(seconds)
    assert (started_and_ready(world), world.events("Killing")) == ((True, True), [])


@pytest.mark.parametrize(("host_network", "address"), [(False, "10.64.0.1"), (True, "172.16.0.1")])
def test_a_probe_that_fails_at_once_knows_the_address_of_the_pod(host_network: bool, address: str) -> None:
    containers = [{"name": "c", "image": "i", "startupProbe": {"tcpSocket": {"port": 80}}}]
    world = World(pod({STARTED_SECONDS: "5"}, containers=containers, hostNetwork=host_network))
    world.look()
    refused = f"Startup probe failed: dial tcp {address}:80: connect: connection refused"
    assert world.events("Unhealthy") == [refused]


def test_readiness_is_looked_at_when_the_startup_probe_succeeds_and_not_before() -> None:
    world = starting({STARTED_SECONDS: "3"}, readiness={"periodSeconds": 60})
    world.look()
    assert world.look(10).wake_at is None
    assert started_and_ready(world) == (True, True)
    late = starting({STARTED_SECONDS: "3", READY_SECONDS: "30"}, readiness={"periodSeconds": 20})
    late.look()
    assert late.look(10).wake_at == NOW + 40
    assert started_and_ready(late) == (True, False)
    assert [text.partition(" ")[0] for text in late.events("Unhealthy")] == ["Startup", "Readiness"]
    late.look(40)
    assert started_and_ready(late) == (True, True)


def test_a_container_that_does_not_start_in_time_is_killed_and_restarted() -> None:
    world = starting({STARTED_SECONDS: "21", STOP_SECONDS: "3"}, terminationGracePeriodSeconds=2)
    for seconds in (0, 10, 20):
        assert world.look(seconds).wake_at == NOW + min(seconds + 10, 20)
    assert world.events("Unhealthy") == ["Startup probe failed: HTTP probe failed with statuscode: 503"] * 3
    assert world.events("Killing") == ["Container c failed startup probe, will be restarted"]
    assert world.look(20).wake_at == NOW + 22
    world.look(22)
    assert world.container()["restartCount"] == 1
    assert world.container()["lastState"]["terminated"]["exitCode"] == 137  # the probe's own grace period is over
    assert started_and_ready(world) == (False, False)


@pytest.mark.parametrize("kind", ["livenessProbe", "startupProbe"])
def test_a_node_that_was_away_records_one_failure_and_not_a_million(kind: str) -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 2**31 - 1}
    annotations = {FAILS_LIVENESS_SECONDS: "0", STARTED_SECONDS: "1e9"}
    world = World(pod(annotations, containers=[{"name": "c", "image": "i", kind: probe}]))
    world.look()
    assert world.look(10_000_000).wake_at == NOW + 10_000_001
    assert len(world.events("Unhealthy")) == 2


def test_liveness_waits_for_the_startup_probe() -> None:
    probe = {"httpGet": {"port": 80}, "failureThreshold": 1}
    slow = {"httpGet": {"port": 80}, "failureThreshold": 10}
    containers = [{"name": "c", "image": "i", "livenessProbe": probe, "startupProbe": slow}]
    world = World(pod({STARTED_SECONDS: "25", FAILS_LIVENESS_SECONDS: "0"}, containers=containers))
    for seconds in (0, 10, 20):
        world.look(seconds)
    assert world.events("Killing") == []
    world.look(30)
    assert world.events("Killing") == ["Container c failed liveness probe, will be restarted"]


def test_what_comes_after_a_sidecar_waits_until_it_has_started() -> None:
    sidecar = {
        "name": "side",
        "image": "i",
        "restartPolicy": "Always",
        "startupProbe": {"httpGet": {"port": 80}, "failureThreshold": 3},
    }
    world = World(pod({"side." + STARTED_SECONDS: "5"}, initContainers=[sidecar]))
    assert world.look().wake_at == NOW + 10
    assert (world.phase, world.conditions["Initialized"]) == ("Pending", "False")
    world.look(10)
    assert (world.phase, world.conditions["Initialized"]) == ("Running", "True")


def test_a_container_that_fails_its_liveness_probe_is_stopped_and_restarted() -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 2}
    containers = [{"name": "c", "image": "i", "livenessProbe": probe}]
    world = World(pod({FAILS_LIVENESS_SECONDS: "15", STOP_SECONDS: "3"}, containers=containers))
    assert world.look().wake_at == NOW + 20
    assert world.look(20).wake_at == NOW + 30
    world.look(30)
    refused = "Liveness probe failed: dial tcp 10.64.0.1:80: connect: connection refused"
    assert world.events("Unhealthy") == [refused, refused]
    assert world.events("Killing") == ["Container c failed liveness probe, will be restarted"]
    assert world.look(30).wake_at == NOW + 33
    assert world.look(33).wake_at == NOW + 33 + 20
    assert world.container()["restartCount"] == 1
    assert world.container()["lastState"]["terminated"]["exitCode"] == 143


HOURS = [8, -8]


@pytest.mark.parametrize("hours", HOURS)
def test_a_back_off_lasts_as_long_when_the_clock_is_set(hours: int) -> None:
    """And what was shown of times stays as it was."""
    world, by = World(pod({LIFETIME_SECONDS: "5", EXIT_CODE: "1"})), hours * 3600.0
    for after in (0.0, 5.0):
        world.look(after)
    assert world.look(10.0).wake_at == NOW + 20
    ended = world.container()["lastState"]["terminated"]
    world.run.clock_set(by)
    assert world.look(by + 19.9).wake_at == NOW + by + 20
    assert world.waiting()[0] == "CrashLoopBackOff" and "back-off 10s " in world.waiting()[1]
    world.look(by + 20.0)
    assert world.container()["restartCount"] == 2
    assert world.container()["lastState"]["terminated"] == ended


@pytest.mark.parametrize("hours", HOURS)
def test_grace_and_deadlines_last_as_long_when_the_clock_is_set(hours: int) -> None:
    by = hours * 3600.0
    stopping = World(pod({STOP_SECONDS: "60"}))
    stopping.look()
    stopping.delete(grace=5)
    assert stopping.look(1.0).wake_at == NOW + 5
    stopping.run.clock_set(by)
    assert stopping.look(by + 4.9).wake_at == NOW + by + 5
    assert stopping.look(by + 5.0).is_gone
    limited = World(pod(activeDeadlineSeconds=20))
    limited.look()
    limited.look(1.0)
    limited.run.clock_set(by)
    assert limited.look(by + 19.9).wake_at == NOW + by + 20
    assert limited.phase == "Running"
    limited.look(by + 20.0)
    assert limited.obj["status"].get("reason") == "DeadlineExceeded"
