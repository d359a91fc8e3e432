"""What is to be verified: pods, what they need around them, and the machine that they get.

    kind: Workload                 the machine, and for how long it is looked at; may be missing
    kind: KubeletConfiguration     what its kubelet runs with; may be missing
    kind: Pod, UsageProfile, …     what runs there

Whoever runs a workload here has to be sure that it is the workload that fails, so what cannot be played is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.quantity import QuantityError, parse
from fairlead.node.cgroups.names import CgroupDriver
from fairlead.sim import manifests
from fairlead.sim.durations import seconds_of
from fairlead.sim.usage.measures import VOLUME
from fairlead.sim.usage.resolving import PREFIX
from fairlead.verify.objects import KINDS, POD, namespace_of

API_VERSION: Final = "verify.fairlead.dev/v1alpha1"
#: A larger file is no small workload.
LONGEST_FILE: Final = 4 << 20
MOST_CONTAINERS: Final = 64
LEAST_SECONDS, MOST_SECONDS = 5.0, 3600.0
_MIB: Final = 1 << 20
_LEAST_BYTES: Final = 64 * _MIB
#: Both begin so long after the node has looked at what it uses. At the time of a look, which round numbers and every
#: back-off would meet again and again, nobody could say which comes first.
AFTER_A_LOOK_SECONDS: Final = 3.7
_SETTINGS: Final = ("Workload", "KubeletConfiguration")
#: Of played containers: nothing in them answers a probe, and there is no command that a hook could run.
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
#: What would be no part of the nested machine, or make it another one.
_DECIDED_HERE: Final = (
    *("cgroupRoot", "cgroupDriver", "failCgroupV1", "cgroupsPerQOS"),
    *("kubeletCgroups", "systemCgroups"),
)


class Size(msgspec.Struct, frozen=True):
    """What of this machine the workload gets, and for how long it is looked at."""

    memory_bytes: int = 512 * _MIB
    cpus: int = 1
    disk_bytes: int = 512 * _MIB
    seconds: float = 60.0


class Workload(msgspec.Struct, frozen=True):
    name: str
    size: Size
    #: A KubeletConfiguration.
    kubelet: Obj
    #: In the order in which they are made; without the pods.
    around: Sequence[Obj]
    pods: Sequence[Obj]


def read(path: Path) -> Workload:
    """ValueError says what is wrong."""
    if path.stat().st_size > LONGEST_FILE:
        raise ValueError(f"{path} has more than {LONGEST_FILE >> 20} MiB: verify is for small workloads")
    try:
        return workload(list(manifests.objects_in(path.read_bytes())), path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def workload(objects: Sequence[Obj], name: str) -> Workload:
    own = _only(objects, "Workload")
    kubelet = _only(objects, "KubeletConfiguration")
    for obj in objects:
        if obj["kind"] not in (*KINDS, *_SETTINGS):
            raise ValueError(f"a {obj['kind']} cannot be verified: say the pods themselves, whose names stay the same")
    order = list(KINDS)
    around = [obj for obj in objects if obj["kind"] in order and obj["kind"] != POD]
    around.sort(key=lambda obj: order.index(obj["kind"]))
    pods = [_prepared(obj) for obj in objects if obj["kind"] == POD]
    if not pods:
        raise ValueError("there is no Pod to run")
    _check_pods(pods)
    for field in _DECIDED_HERE:
        if field in kubelet:
            raise ValueError(f"KubeletConfiguration: {field} is decided by verify; leave it out")
    document = {key: value for key, value in kubelet.items() if key not in ("kind", "apiVersion", "metadata")}
    size = _size({key: value for key, value in own.items() if key not in ("kind", "apiVersion", "metadata")}, Size())
    return Workload((own.get("metadata") or {}).get("name") or name, size, document, around, pods)


def resized(workload: Workload, fields: Mapping[str, Any]) -> Workload:
    """With another machine than its own document says; ValueError for what is none."""
    return replace(workload, size=_size(fields, workload.size))


def kubelet_document(workload: Workload) -> Obj:
    """As both sides run with it: `verify` says itself that cgroup v1 and swap will do."""
    return {"cgroupDriver": str(CgroupDriver.CGROUPFS), "failCgroupV1": False, "failSwapOn": False, **workload.kubelet}


def containers_of(pod: Obj) -> Iterator[tuple[Obj, bool]]:
    """Each with whether it is an init container."""
    for field, is_init in (("initContainers", True), ("containers", False)):
        for container in pod["spec"].get(field) or ():
            yield container, is_init


def is_ordinary(container: Obj) -> bool:
    """Whether it runs what it says; all others are played."""
    return bool(container.get("command") or container.get("args"))


def _only(objects: Sequence[Obj], kind: str) -> Obj:
    found = [obj for obj in objects if obj["kind"] == kind]
    if len(found) > 1:
        raise ValueError(f"there are {len(found)} {kind}s: one says it all")
    if found and kind == "Workload" and found[0].get("apiVersion") != API_VERSION:
        raise ValueError(f"apiVersion of a Workload is {API_VERSION}")
    return found[0] if found else {}


def _prepared(pod: Obj) -> Obj:
    """Nobody in there talks to the API server, and a volume for its token would be memory that no model speaks of."""
    if not isinstance(pod.get("spec"), dict):
        raise ValueError("a Pod without a spec")
    spec = {"automountServiceAccountToken": False, **pod["spec"]}
    return {**pod, "metadata": {**(pod.get("metadata") or {})}, "spec": spec}


def _check_pods(pods: Sequence[Obj]) -> None:
    names = [(namespace_of(pod), pod["metadata"].get("name")) for pod in pods]
    for key in names:
        if not key[1]:
            raise ValueError("a Pod without a name: both runs have to call it the same")
        if names.count(key) > 1:
            raise ValueError(f"there are several pods {key[1]}")
    for pod in pods:
        if not isinstance(pod["spec"].get("containers"), list):
            raise ValueError(f"pod {pod['metadata']['name']}: spec.containers is missing")
        if any(not isinstance(container, dict) for container, _ in containers_of(pod)):
            raise ValueError(f"pod {pod['metadata']['name']}: a container is no object")
        _check_volumes(pod)
    if sum(len(list(containers_of(pod))) for pod in pods) > MOST_CONTAINERS:
        raise ValueError(f"there are more than {MOST_CONTAINERS} containers: verify is for small workloads")
    for pod in pods:
        for container, _ in containers_of(pod):
            if not is_ordinary(container):
                _check_played(pod["metadata"]["name"], container)


def _check_volumes(pod: Obj) -> None:
    """What nobody mounts, nobody fills."""
    mounts = [mount for container, _ in containers_of(pod) for mount in container.get("volumeMounts") or ()]
    mounted = {mount.get("name") for mount in mounts if isinstance(mount, dict)}
    for key in pod["metadata"].get("annotations") or {}:
        name = key.removeprefix(f"{PREFIX}{VOLUME}")
        if name != key and name not in mounted:
            raise ValueError(f"pod {pod['metadata']['name']}: {key} cannot be played: no container mounts {name}")


def _check_played(pod: str, container: Obj) -> None:
    where = f"pod {pod}, container {container.get('name')}"
    for probe in _PROBES:
        if container.get(probe):
            raise ValueError(f"{where}: {probe} cannot be played; give the container a command, or leave it out")
    for hook in (container.get("lifecycle") or {}).values():
        if not isinstance(hook, dict) or set(hook) != {"sleep"}:
            raise ValueError(f"{where}: of hooks only sleep can be played")


def _size(fields: Mapping[str, Any], before: Size) -> Size:
    known = {"memory": _bytes, "cpus": _cpus, "disk": _bytes, "seconds": _seconds}
    names = {"memory": "memory_bytes", "disk": "disk_bytes"}
    if unknown := sorted(fields.keys() - known.keys()):
        raise ValueError(f"Workload: there is no {unknown[0]}; known are {', '.join(known)}")
    given: dict[str, Any] = {names.get(key, key): known[key](key, value) for key, value in fields.items()}
    return replace(before, **given)


def _bytes(where: str, value: Any) -> int:
    try:
        found = parse(str(value)).units
    except QuantityError:
        raise ValueError(f"{where}: {value!r} is no amount, write one such as 512Mi") from None
    if found < _LEAST_BYTES:
        raise ValueError(f"{where}: {value} is less than {_LEAST_BYTES // _MIB}Mi, in which nothing runs")
    return found


def _cpus(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1024:
        raise ValueError(f"{where}: {value!r} is no number of CPUs")
    return value


def _seconds(where: str, value: Any) -> float:
    try:
        found = float(value) if isinstance(value, int | float) else seconds_of(str(value))
    except ValueError:
        raise ValueError(f"{where}: {value!r} is no duration, write seconds, or 2m") from None
    if not LEAST_SECONDS <= found <= MOST_SECONDS:
        raise ValueError(f"{where}: {value} is not between {LEAST_SECONDS:g} s and {MOST_SECONDS:g} s")
    return found
