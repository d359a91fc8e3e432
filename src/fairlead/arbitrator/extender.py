"""The scheduler extender: a kube-scheduler asks whether a pod may start now (k8s.io/kube-scheduler/extender/v1).

The answer depends on amounts, not on nodes, so it is all nodes or none. kube-scheduler may send thousands of nodes
hundreds of times a second, so nodes are passed on as bytes. For a pod that may not start, preemption is refused too.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.meta import Object, Versioned
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.grant_table import GrantTable

#: How many refused nodes get a reason. kube-scheduler aggregates the reasons, and treats a node without one as refused
#: without hope of preemption; a reason for each of 5,000 nodes would be half a megabyte in every attempt.
MOST_REASONS: Final = 100

_NULL: Final = msgspec.Raw(b"null")
_NO_NODES: Final = b'{"metadata":{},"items":[]}'


class _Args(msgspec.Struct, rename="pascal"):
    """`ExtenderArgs`: node names if the extender is `nodeCacheCapable`, else whole nodes."""

    pod: Pod
    nodes: msgspec.Raw = _NULL
    node_names: msgspec.Raw = _NULL


class _NodeList(msgspec.Struct):
    items: list[Versioned] | None = None


class _PreemptionArgs(msgspec.Struct, rename="pascal"):
    """`ExtenderPreemptionArgs`: victims by uid if the extender is `nodeCacheCapable`, else whole."""

    pod: Pod
    node_name_to_victims: msgspec.Raw = _NULL
    node_name_to_meta_victims: msgspec.Raw = _NULL


class _Victims(msgspec.Struct):
    pods: list[Object] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


_args_of = msgspec.json.Decoder(_Args).decode
_preemption_of = msgspec.json.Decoder(_PreemptionArgs).decode
_victims_of = msgspec.json.Decoder(dict[str, _Victims] | None).decode
_names_of = msgspec.json.Decoder(list[str]).decode
_nodes_of = msgspec.json.Decoder(_NodeList).decode


def filter_result(body: bytes, grants: GrantTable) -> bytes:
    """The `ExtenderFilterResult`. Raises `UNREADABLE` for invalid arguments."""
    args = _args_of(body)
    reason = grants.ask_remotely(args.pod)
    nodes, names = bytes(args.nodes), bytes(args.node_names)
    if not reason:
        return _result(nodes, names, b"{}")
    # "Unresolvable": preemption would not help, because the pod does not wait for room on a node.
    refused = encode(dict.fromkeys(_asked_of(nodes, names)[:MOST_REASONS], reason))
    return _result(nodes if nodes == b"null" else _NO_NODES, names if names == b"null" else b"[]", refused)


def preemption_result(body: bytes, grants: GrantTable) -> bytes:
    """The `ExtenderPreemptionResult`: all victims, or none. Raises `UNREADABLE` for invalid arguments."""
    args = _preemption_of(body)
    victims = bytes(args.node_name_to_meta_victims)
    if grants.refusal(args.pod):
        victims = b"{}"
    elif victims == b"null":
        whole = _victims_of(args.node_name_to_victims) or {}
        victims = encode({node: _by_uid(pods) for node, pods in whole.items()})
    return b'{"NodeNameToMetaVictims":%b}' % victims


def _by_uid(victims: _Victims) -> Obj:
    uids = [{"UID": pod.metadata.uid} for pod in victims.pods or ()]
    return {"Pods": uids, "NumPDBViolations": victims.violations}


def _asked_of(nodes: bytes, names: bytes) -> list[str]:
    if names != b"null":
        return _names_of(names)
    return [node.metadata.name for node in _nodes_of(nodes).items or ()] if nodes != b"null" else []


def _result(nodes: bytes, names: bytes, unresolvable: bytes) -> bytes:
    parts = (
        b'{"Nodes":',
        nodes,
        b',"NodeNames":',
        names,
        b',"FailedNodes":{},"FailedAndUnresolvableNodes":',
        unresolvable,
        b',"Error":""}',
    )
    return b"".join(parts)
