"""Who has which CPUs, and how a kubelet keeps that in a file: `cpu_manager_state`.

Source: pkg/kubelet/cm/cpumanager/state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from fairlead.golang.json_errors import json_error
from fairlead.golang.quoting import go_quote
from fairlead.node.checksums import fnv1a
from fairlead.node.configuration.cpu_sets import listed, parse_cpu_set
from fairlead.node.cpus.topology import CpuIds

STATE_FILE: Final = "cpu_manager_state"
_CORRUPT: Final = "checkpoint is corrupted"

#: By uid of the pod and name of the container.
Exclusive: TypeAlias = Mapping[str, Mapping[str, CpuIds]]


class CpuState(msgspec.Struct, frozen=True):
    #: Where all run that have none to themselves; empty: nothing is handed out.
    shared: CpuIds = frozenset()
    exclusive: Exclusive = msgspec.field(default_factory=dict)

    @property
    def all_exclusive(self) -> CpuIds:
        return frozenset(cpu for of in self.exclusive.values() for cpus in of.values() for cpu in cpus)

    def with_container(self, uid: str, container: str, cpus: CpuIds) -> CpuState:
        of_pod = {**self.exclusive.get(uid, {}), container: cpus}
        return CpuState(self.shared - cpus, {**self.exclusive, uid: of_pod})

    def without_pod(self, uid: str) -> CpuState:
        """What the containers of the pod had is everybody's again."""
        freed = frozenset[int]().union(*self.exclusive.get(uid, {}).values())
        return CpuState(self.shared | freed, {each: of for each, of in self.exclusive.items() if each != uid})


class _Kept(msgspec.Struct, rename="camel"):
    policy_name: str = ""
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    checksum: int = 0


def encoded(policy: str, state: CpuState) -> bytes:
    entries = {
        uid: {name: listed(cpus) for name, cpus in sorted(of.items())} for uid, of in sorted(state.exclusive.items())
    }
    kept = _Kept(policy, listed(state.shared), entries)
    kept.checksum = _checksum(kept)
    found = msgspec.to_builtins(kept)
    if not entries:
        del found["entries"]
    return msgspec.json.encode(found)


def decoded(policy: str, text: bytes) -> CpuState:
    """ValueError, in a kubelet's words, for what it would not go on with."""
    if (problem := json_error(text)) is not None:
        raise ValueError(problem)
    try:
        kept = msgspec.json.decode(text, type=_Kept)
    except msgspec.ValidationError:
        raise ValueError(_CORRUPT) from None
    if kept.checksum and kept.checksum != _checksum(kept):  # files of old kubelets have none
        raise ValueError(_CORRUPT)
    if kept.policy_name != policy:
        text_of = f"configured policy {go_quote(policy)} differs from state checkpoint policy"
        raise ValueError(f"{text_of} {go_quote(kept.policy_name)}")
    try:
        shared = parse_cpu_set(kept.default_cpu_set).cpus
    except ValueError as problem:
        raise ValueError(f"could not parse default cpu set {go_quote(kept.default_cpu_set)}: {problem}") from None
    return CpuState(shared, {uid: _of_pod(uid, containers) for uid, containers in kept.entries.items()})


def _of_pod(uid: str, containers: Mapping[str, str]) -> Mapping[str, CpuIds]:
    found = {}
    for name, text in containers.items():
        try:
            found[name] = parse_cpu_set(text).cpus
        except ValueError as problem:
            where = f"for container {go_quote(name)} in pod {go_quote(uid)}"
            raise ValueError(f"could not parse cpuset {go_quote(text)} {where}: {problem}") from None
    return found


def _checksum(kept: _Kept) -> int:
    """Of the structure as a kubelet prints it for that."""
    pods = " ".join(f"{uid}:{_printed(containers)}" for uid, containers in sorted(kept.entries.items()))
    printed = (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){kept.policy_name} "
        f"DefaultCPUSet:(string){kept.default_cpu_set} "
        f"Entries:(map[string]map[string]string)map[{pods}] Checksum:(checksum.Checksum)0}}"
    )
    return fnv1a(printed)


def _printed(containers: Mapping[str, str]) -> str:
    return f"map[{' '.join(f'{name}:{cpus}' for name, cpus in sorted(containers.items()))}]"
