"""One pass over the containers of a pod: which end now, which start, which have to wait, and for what."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.pods import Container, EphemeralContainer, Pod, Probe
from fairlead.node.container_runtime import ContainerRuntime, Exit, Probed, Start, WantedImage
from fairlead.node.containers import ContainerRecord, RunningState, Stopping, TerminatedState, WaitingState
from fairlead.node.probes import failure, failures, first_probe_at, passes_at, starts_at
from fairlead.node.restarts import (
    BACK_OFF,
    CRASH_LOOP,
    BackOff,
    back_off_event,
    crash_loop_message,
    first_try,
    init_runs_again,
    restarts_all,
    runs_again,
)
from fairlead.node.start_requirements import (
    Found,
    Needs,
    back_off_pulling,
    environment_problem,
    images_mounted,
    never_pulled,
    pull_refusal,
)
from fairlead.node.status import PodAddresses

#: How long a failed pull is shown as ErrImagePull before it becomes ImagePullBackOff.
PULL_FAILURE_SECONDS: Final = 1.0
#: How long until it is tried again to make a container that could not be made.
CREATE_AGAIN_SECONDS: Final = 10.0
#: What a container ends with whose program could not be started.
START_FAILED: Final = 128
START_ERROR: Final = "StartError"
#: The grace period of a pod that says nothing.
DEFAULT_GRACE_SECONDS: Final = 30


class Note(NamedTuple):
    """An event to record about the pod, or about the container at `path`."""

    type: str
    reason: str
    message: str
    path: str = ""


class Pull(NamedTuple):
    """The latest pull of an image, and its back-off if it failed, or one before it."""

    image: str
    back_off: BackOff | None = None
    error: str = ""
    is_under_way: bool = False


def field_path(container: Container, *, is_init: bool) -> str:
    if isinstance(container, EphemeralContainer):
        return f"spec.ephemeralContainers{{{container.name}}}"
    return f"spec.{'initContainers' if is_init else 'containers'}{{{container.name}}}"


class ContainerSync(msgspec.Struct):
    """Call `advance` for every container that may proceed; the results are in the fields."""

    runtime: ContainerRuntime
    pod: Pod
    now: float
    needs: Needs
    found: Found
    pulls: dict[str, Pull]
    notes: list[Note]
    addresses: PodAddresses
    #: Of restarts (`crashLoopBackOff.maxContainerRestartPeriod`), in seconds.
    longest_back_off: float
    #: A container has ended so that all of the pod are to run anew.
    restarts_all: bool = False
    #: The runtime is about to start one.
    is_starting: bool = False
    has_changed: bool = False
    wake_at: float | None = None

    def advance(self, container: Container, record: ContainerRecord, *, is_init: bool = False) -> None:
        """End the container if its lifetime is over, and start or restart it if it is due."""
        if isinstance(record.state, RunningState):
            exit_ = self._exit_of(container, record, record.state.started_at, is_init=is_init)
            if not self._has_ended(container, record, exit_):
                self._probe(container, record, record.state.started_at, is_init=is_init)
                return
        if isinstance(record.state, TerminatedState):
            if isinstance(container, EphemeralContainer):
                return
            if restarts_all(container, record.state.exit_code):
                self.restarts_all = True
                return
            again = init_runs_again if is_init else runs_again
            if not again(container, self.pod.spec.restart_policy, record.state.exit_code):
                return
        allowed_at = record.allowed_at()
        if self.now >= allowed_at:
            self._start(container, record, is_init=is_init)
            return
        self.wake(allowed_at)
        if isinstance(record.state, TerminatedState):
            assert record.state.ended_at is not None
            seconds = allowed_at - record.state.ended_at
            waiting = WaitingState(CRASH_LOOP, crash_loop_message(seconds, container.name, self.pod))
            path = field_path(container, is_init=is_init)
            self._wait(record, waiting, Note(WARNING, BACK_OFF, back_off_event(container.name, self.pod), path))

    def _probe(self, container: Container, record: ContainerRecord, started_at: float, *, is_init: bool) -> None:
        """What the probes of a running container come to by now."""
        if container.startup_probe is container.readiness_probe is container.liveness_probe is None:
            return
        if (probed := self.runtime.probed(self.pod, container, started_at)) is not None:
            self._take_probed(probed, container, record, is_init=is_init)
            return
        since = self._check_startup(container, record, started_at, is_init=is_init)
        if since is None:
            return
        self._check_readiness(container, record, started_at, since, is_init=is_init)
        probe = container.liveness_probe
        if probe is None:
            return
        hangs_at = self.runtime.hangs_at(self.pod, container, started_at)
        if not math.isinf(hangs_at):
            counted = failures(probe, started_at, max(hangs_at, since), self.now)
            self._fail("Liveness", probe, counted, container, record, is_init=is_init)

    def _take_probed(self, probed: Probed, container: Container, record: ContainerRecord, *, is_init: bool) -> None:
        self.has_changed |= (probed.is_started, probed.is_ready) != (record.is_started, record.is_ready)
        record.is_started, record.is_ready = probed.is_started, probed.is_ready
        probe = {"Liveness": container.liveness_probe, "Startup": container.startup_probe}.get(probed.failed)
        if probe is not None and record.stopping is None:
            self._stop_failed(probed.failed, probe, container, record, is_init=is_init)

    def _check_startup(
        self, container: Container, record: ContainerRecord, started_at: float, *, is_init: bool
    ) -> float | None:
        """Since when its other probes are made; None while the startup probe has not succeeded."""
        probe = container.startup_probe
        if probe is None:
            return started_at
        passed_at = starts_at(probe, started_at, self.runtime.startup_answers_at(self.pod, container, started_at))
        is_started = passed_at is not None and self.now >= passed_at
        if is_started != record.is_started:
            record.is_started, record.probe_failures, self.has_changed = is_started, 0, True
        if is_started:
            return passed_at
        record.is_ready = False
        if passed_at is not None:
            self.wake(passed_at)
        counted = failures(probe, started_at, started_at, self.now)
        self._fail("Startup", probe, counted, container, record, is_init=is_init)
        return None

    def _check_readiness(
        self, container: Container, record: ContainerRecord, started_at: float, since: float, *, is_init: bool
    ) -> None:
        """Whether the container is ready by now; its first failure is an event."""
        probe = container.readiness_probe
        if probe is None:
            record.is_ready = True
            return
        answers_at = self.runtime.answers_at(self.pod, container, started_at)
        ready_at = passes_at(probe, started_at, since, answers_at)
        is_ready = ready_at is not None and self.now >= ready_at
        self.has_changed |= is_ready != record.is_ready
        record.is_ready = is_ready
        if is_ready:
            return
        if ready_at is not None:
            self.wake(ready_at)
        fails_at = first_probe_at(probe, started_at, since, since)
        if fails_at >= answers_at or record.has_failed_probe:
            return
        if self.now < fails_at:
            self.wake(fails_at)
            return
        record.has_failed_probe = self.has_changed = True
        self.notes.append(self._unhealthy("Readiness", probe, container, is_init=is_init))

    def _fail(
        self,
        kind: str,
        probe: Probe,
        counted: tuple[int, float],
        container: Container,
        record: ContainerRecord,
        *,
        is_init: bool,
    ) -> None:
        """Each failure of such a probe is an event; stop the container once there are too many in a row."""
        if record.stopping is not None:
            return
        count, next_at = min(counted[0], probe.failure_threshold), counted[1]
        if count != record.probe_failures:
            record.probe_failures, self.has_changed = count, True
            self.notes.append(self._unhealthy(kind, probe, container, is_init=is_init))
        if count < probe.failure_threshold:
            self.wake(next_at)
            return
        self._stop_failed(kind, probe, container, record, is_init=is_init)

    def _stop_failed(
        self, kind: str, probe: Probe, container: Container, record: ContainerRecord, *, is_init: bool
    ) -> None:
        """The node ends a container whose probe has failed too often."""
        graces = (probe.termination_grace_period_seconds, self.pod.spec.termination_grace_period_seconds)
        grace = next((seconds for seconds in graces if seconds is not None), DEFAULT_GRACE_SECONDS)
        text = f"Container {container.name} failed {kind.lower()} probe, will be restarted"
        self.stop(container, record, text, grace, is_init=is_init)
        self.wake(self.now)

    def _unhealthy(self, kind: str, probe: Probe, container: Container, *, is_init: bool) -> Note:
        message = f"{kind} probe failed: {failure(probe, self.addresses.of(self.pod))}"
        return Note(WARNING, "Unhealthy", message, field_path(container, is_init=is_init))

    def _exit_of(
        self, container: Container, record: ContainerRecord, started_at: float, *, is_init: bool
    ) -> Exit | None:
        if (container.resources or {}) != record.resources:  # a resize that is not carried out yet
            container = msgspec.structs.replace(container, resources=record.resources)
        exit_ = self.runtime.exit_of(self.pod, container, started_at, is_init=is_init)
        if (stopping := record.stopping) is None or (exit_ is not None and exit_.at <= stopping.since):
            return exit_
        return self.runtime.stop(self.pod, container, stopping, is_init=is_init)

    def stop(self, container: Container, record: ContainerRecord, message: str, grace: float, *, is_init: bool) -> None:
        """Begin to stop a running container that is to start again."""
        if record.stopping is None:
            record.stopping = Stopping(self.now, grace)
            self.notes.append(Note(NORMAL, "Killing", message, field_path(container, is_init=is_init)))

    def _has_ended(self, container: Container, record: ContainerRecord, exit_: Exit | None) -> bool:
        if exit_ is None:
            return False
        if self.now < exit_.at:
            self.wake(exit_.at)
            return False
        record.end(exit_.code, self.now, exit_.reason, exit_.message)
        self.restarts_all |= restarts_all(container, exit_.code)
        self.has_changed = True
        return True

    def _start(self, container: Container, record: ContainerRecord, *, is_init: bool) -> None:
        path = field_path(container, is_init=is_init)
        own = WantedImage(container.name, container.image, container.image_pull_policy, path, container, is_init)
        images = *images_mounted(self.pod, self.needs, container.name), own
        if not all(self._has_image(wanted, record, path) for wanted in images):
            return
        needs = self.needs.environments.get(container.name, ())
        if problem := environment_problem(needs, self.pod.metadata.namespace, self.found):
            note = Note(WARNING, "Failed", f"Error: {problem}", path)
            self._wait(record, WaitingState("CreateContainerConfigError", problem), note)
            return
        start = self.runtime.start(self.pod, container, record.next_attempt, self.now, is_init=is_init)
        if start.problem:
            self._fail_to_start(container, record, start, path)
            return
        if math.isinf(start.at):
            self.is_starting = True
            return
        record.start(container, start.at, start.container_id, start.image_id, self.longest_back_off)
        record.shown = start.shown
        self.has_changed = True
        for wanted in images:
            pull = self.pulls.pop(wanted.key, None)
            if pull is None or pull.error:
                pulled = (
                    f'Container image "{wanted.reference}" already present on machine and can be accessed by the pod'
                )
                self.notes.append(Note(NORMAL, "Pulled", pulled, wanted.path))
        self.notes += (
            Note(NORMAL, "Created", "Container created", path),
            Note(NORMAL, "Started", "Container started", path),
        )
        exit_ = self.runtime.exit_of(self.pod, container, self.now, is_init=is_init)
        if exit_ is not None and self._has_ended(container, record, exit_) and (exit_.code or not is_init):
            self.wake(self.now)
        if isinstance(record.state, RunningState):
            self._probe(container, record, self.now, is_init=is_init)

    def _fail_to_start(self, container: Container, record: ContainerRecord, start: Start, path: str) -> None:
        """One that was made and does not start has run for no time; one that cannot be made waits."""
        note = Note(WARNING, "Failed", f"Error: {start.message}", path)
        if math.isinf(start.at):
            self._wait(record, WaitingState(start.problem, start.message), note)
            self.wake(self.now + CREATE_AGAIN_SECONDS)
            return
        self.pulls.pop(container.name, None)
        record.start(container, start.at, start.container_id, start.image_id, self.longest_back_off)
        record.end(START_FAILED, start.at, START_ERROR, start.message)
        self.notes.append(note)
        self.has_changed = True
        self.wake(self.now)

    def _has_image(self, wanted: WantedImage, record: ContainerRecord, path: str) -> bool:
        """Whether the image is on the machine; else it is pulled, as far as the policy and a back-off allow.

        Events tell of who has the image what became of it, and of the container at `path` that it does not start.
        """
        image = self.runtime.image(self.pod, wanted)
        if image.problem:
            self._wait(
                record,
                WaitingState(image.problem, image.message),
                Note(WARNING, "InspectFailed", image.message, wanted.path),
                Note(WARNING, "Failed", f"Error: {image.problem}", path),
            )
            return False
        if image.is_present or image.is_asked_for:
            return image.is_present
        if wanted.policy == "Never":
            message = never_pulled(wanted.reference)
            self._wait(
                record,
                WaitingState("ErrImageNeverPull", message),
                Note(WARNING, "ErrImageNeverPull", message, wanted.path),
                Note(WARNING, "Failed", "Error: ErrImageNeverPull", path),
            )
            return False
        last = self.pulls.get(wanted.key)
        if last is None or last.image != wanted.reference:
            last = Pull(wanted.reference)
        if last.is_under_way or last.back_off is None or self.now >= last.back_off.allowed_at(last.back_off.tried_at):
            return self._pull(wanted, record, last, path)
        self._back_off_pulling(wanted, record, last.back_off, last.error, path)
        return False

    def _pull(self, wanted: WantedImage, record: ContainerRecord, last: Pull, path: str) -> bool:
        error = self.runtime.pull(self.pod, wanted)
        if not last.is_under_way:
            self.notes.append(Note(NORMAL, "Pulling", f'Pulling image "{wanted.reference}"', wanted.path))
        if not error:
            self.pulls[wanted.key] = last._replace(is_under_way=error is None)
            return error is not None
        before = last.back_off
        back_off = before.tried(before.tried_at, self.now) if before is not None else first_try(self.now)
        self.pulls[wanted.key] = Pull(wanted.reference, back_off, error)
        self.wake(self.now + PULL_FAILURE_SECONDS)
        reason, message = pull_refusal(wanted.reference, error)
        self._wait(
            record,
            WaitingState(reason, message),
            Note(WARNING, "Failed", f'Failed to pull image "{wanted.reference}": {error}', wanted.path),
            Note(WARNING, "Failed", f"Error: {reason}", path),
        )
        return False

    def _back_off_pulling(
        self, wanted: WantedImage, record: ContainerRecord, back_off: BackOff, error: str, path: str
    ) -> None:
        if self.now < back_off.tried_at + PULL_FAILURE_SECONDS:
            self.wake(back_off.tried_at + PULL_FAILURE_SECONDS)
            return
        self.wake(back_off.allowed_at(back_off.tried_at))
        message = back_off_pulling(wanted.reference)
        self._wait(
            record,
            WaitingState("ImagePullBackOff", ": ".join((message, *pull_refusal(wanted.reference, error)))),
            Note(NORMAL, "BackOff", message, wanted.path),
            Note(WARNING, "Failed", "Error: ImagePullBackOff", path),
        )

    def _wait(self, record: ContainerRecord, waiting: WaitingState, *notes: Note) -> None:
        """The container waits for that from now on; records the events if it did not already."""
        if record.state == waiting:
            return
        record.wait(waiting)
        self.has_changed = True
        self.notes += notes

    def wake(self, at: float) -> None:
        """Look at the pod again at that time, or before."""
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)
