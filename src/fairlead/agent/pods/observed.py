"""`node`'s questions about pods, answered by what was observed of them; what is asked for is begun."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial

from fairlead.agent.cgroups.usage import usage_of
from fairlead.agent.images_seam import InvalidName
from fairlead.agent.pods.last_words import last_words
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.runtimes.base import START_ERROR, ContainerStatus, State
from fairlead.api.pods import Container, Pod
from fairlead.node.container_runtime import Exit, Image, Probed, Start, WantedImage
from fairlead.node.container_sync import CREATE_AGAIN_SECONDS, START_FAILED
from fairlead.node.containers import OOM_KILLED, SIGKILLED, UNKNOWN, Stopping

#: Nobody can say yet.
_NOT_YET = Exit(math.inf, SIGKILLED)
_LOST = "ContainerStatusUnknown"
_LOST_MESSAGE = "The container could not be located when the pod was terminated"


class ObservedRuntime:
    """`node.container_runtime.ContainerRuntime` of one node; `pod_of` has the pod of a uid."""

    def __init__(self, pod_of: Callable[[str], RealPod]) -> None:
        self._pod_of = pod_of
        #: Of those who ask.
        self.now = 0.0

    def sandbox_ready_at(self, pod: Pod, since: float) -> float:
        real = self._of(pod)
        if real.sandbox is not None and self.has_lost_sandbox(pod):
            real.sandbox = None
            real.errands.forget("sandbox")
        return since if real.errands.ask("sandbox", real.make_sandbox) else math.inf

    def has_lost_sandbox(self, pod: Pod) -> bool:
        return not self._of(pod).place.runtime.has_sandbox(pod.metadata.uid)

    def prepare(self, pod: Pod) -> str | None:
        real, key = self._of(pod), "devices"
        problem = real.errands.ask(key, real.prepare_devices)
        if problem:
            real.errands.forget(key)
        return problem

    def unprepare(self, pod: Pod) -> bool:
        real = self._of(pod)
        if not real.place.devices.is_held(pod.metadata.uid):
            return True
        return bool(real.errands.ask("devices back", real.unprepare_devices))

    def mount(self, pod: Pod) -> str | None:
        real = self._of(pod)
        return real.errands.ask("volumes", real.set_up_volumes)

    def image(self, pod: Pod, wanted: WantedImage) -> Image:
        real, reference = self._of(pod), wanted.reference
        try:
            found = real.place.images.find(reference)
        except InvalidName as problem:
            return Image(False, "InvalidImageName", f'Failed to apply default image tag "{reference}": {problem}')
        except OSError as problem:
            return Image(False, "ImageInspectError", f'Failed to inspect image "{reference}": {problem}')
        if found is None or wanted.key in real.pulled:
            return Image(found is not None)
        if wanted.policy == "Always":
            return Image(False)
        if real.place.pulls.is_open(reference, found):
            return Image(True)
        may_have = real.errands.ask(key := ("image", wanted.key), partial(real.may_have, found, reference))
        if may_have is None:
            return Image(False, is_asked_for=True)
        real.errands.forget(key)
        return Image(may_have)

    def pull(self, pod: Pod, wanted: WantedImage) -> str | None:
        real, key = self._of(pod), ("pull", wanted.key)
        error = real.errands.ask(key, partial(real.pull, wanted))
        if error is not None:
            real.errands.forget(key)
        if error == "":
            real.pulled.add(wanted.key)
        return error

    def start(self, pod: Pod, container: Container, attempt: int, now: float, *, is_init: bool) -> Start:
        real, key = self._of(pod), ("start", container.name, attempt)
        image = real.place.images.find(container.image)
        if image is None:  # removed since it was looked for
            return Start(problem="CreateContainerError", message=f'image "{container.image}" is not there any more')
        start = real.errands.ask(key, partial(real.start, container, attempt, image, is_init=is_init))
        if start is None:
            return Start()
        if math.isinf(start.at):
            real.errands.forget_after(key, CREATE_AGAIN_SECONDS)
        else:
            real.errands.forget(key)
            real.pulled.discard(container.name)
        return start

    def exit_of(self, pod: Pod, container: Container, started_at: float, *, is_init: bool) -> Exit | None:
        real = self._of(pod)
        status = real.place.runtime.status(real.current.get(container.name, ""))
        if status is None:
            return Exit(0.0, SIGKILLED, _LOST, _LOST_MESSAGE)
        return self._exit(real, status) if status.state is State.EXITED else None

    def probed(self, pod: Pod, container: Container, started_at: float) -> Probed | None:
        return self._of(pod).probes(container, started_at).result

    # Nobody asks for these: probes are made, so that nothing has to be foretold.

    def startup_answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        return started_at

    def answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        return started_at

    def hangs_at(self, pod: Pod, container: Container, started_at: float) -> float:
        return math.inf

    def memory_bytes(self, pod: Pod, container: Container, started_at: float, now: float) -> int:
        real = self._of(pod)
        status = real.place.runtime.status(real.current.get(container.name, ""))
        if status is None:
            return 0
        usage = usage_of(real.place.cgroups, f"{real.place.cgroup_of(real.manifest)}/{status.cgroup_name}")
        return usage.memory_usage_bytes if usage is not None else 0

    def resize(self, pod: Pod, generation: int, but: Collection[str]) -> str | None:
        real, key = self._of(pod), ("resize", generation)
        problem = real.errands.ask(key, partial(real.resize, but))
        if problem is not None:
            real.errands.forget(key)
        return problem

    def stop(self, pod: Pod, container: Container, stopping: Stopping, *, is_init: bool) -> Exit:
        real = self._of(pod)
        id_ = real.current.get(container.name, "")
        status = real.place.runtime.status(id_)
        if status is None:
            return Exit(stopping.since, SIGKILLED, _LOST, _LOST_MESSAGE)
        if status.state is State.EXITED:
            return self._exit(real, status)
        seconds = real.grace_seconds if math.isinf(stopping.grace_seconds) else stopping.grace_seconds
        real.stop(id_, container, seconds, has_hook=stopping.has_hook, has_turn=stopping.turn <= self.now)
        return _NOT_YET

    def _of(self, pod: Pod) -> RealPod:
        return self._pod_of(pod.metadata.uid)

    def _exit(self, real: RealPod, status: ContainerStatus) -> Exit:
        at = min(status.finished_at, self.now)  # somebody may have set the clock back, and it has ended
        if status.start_error:
            return Exit(at, START_FAILED, START_ERROR, status.start_error)
        reason = OOM_KILLED if status.is_oom_killed else (UNKNOWN if status.is_lost else "")
        words = last_words(real.place.runtime, status, real.container(status.name))
        return Exit(at, status.exit_code, reason, words)
