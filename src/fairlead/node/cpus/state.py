"""Who has which CPUs, and how a kubelet keeps that in a file: `cpu_manager_state`.

Source: pkg/kubelet/cm/cpumanager/state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from fairlead.golang.quoting import go_quote
from fairlead.node import checkpoint
from fairlead.node.configuration.cpu_sets import listed, parse_cpu_set
from fairlead.node.cpus.topology import CpuIds

STATE_FILE: Final = "cpu_manager_state"

#: By uid of the pod and name of the container.
Exclusive: TypeAlias = Mapping[str, Mapping[str, CpuIds]]


class CpuState(msgspec.Struct, frozen=True):
    #: Where all run that have none to themselves; empty: nothing is handed out.
    shared: CpuIds = frozenset()
    exclusive: Exclusive = msgspec.field(default_factory=dict)

    @property
    def all_exclusive(self) -> CpuIds:
        return frozenset(cpu for of in self.exclusive.values() for cpus in of.values() for cpu in cpus)

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
    return checkpoint.encoded(_Kept(policy, listed(state.shared), entries), _printed)


def decoded(policy: str, text: bytes) -> CpuState:
    """ValueError, in a kubelet's words, for what it would not go on with."""
    kept = checkpoint.decoded(text, _Kept, _printed, policy)
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


def _printed(kept: _Kept) -> str:
    pods = " ".join(f"{uid}:{_containers(containers)}" for uid, containers in sorted(kept.entries.items()))
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){kept.policy_name} "
        f"DefaultCPUSet:(string){kept.default_cpu_set} "
        f"Entries:(map[string]map[string]string)map[{pods}] Checksum:(checksum.Checksum)0}}"
    )


def _containers(containers: Mapping[str, str]) -> str:
    return f"map[{' '.join(f'{name}:{cpus}' for name, cpus in sorted(containers.items()))}]"
