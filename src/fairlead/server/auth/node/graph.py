"""Which node needs which objects: those of the pods that are on it, and of the volumes behind their claims.

It follows the committed changes; an answer is a look into a dictionary. For each object it counts on which nodes there
are pods that name it. Of all that pods name, only claims lead further, to their volumes and the secrets of these, which
are counted when a node begins or ceases to need the claim.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from fairlead.api.encoded import Encoded, key_bytes, text_bytes
from fairlead.api.meta import View
from fairlead.api.objects import Obj, metadata
from fairlead.api.pods import MIRROR
from fairlead.caches import LruCache
from fairlead.kinds.object_references import (
    claim_names,
    config_map_names,
    resource_claim_names,
    secret_names,
    volume_secret_names,
)


class Needed(StrEnum):
    """The kinds of objects that nodes need because of their pods."""

    SECRET = "secrets"
    CONFIG_MAP = "configmaps"
    CLAIM = "persistentvolumeclaims"
    ACCOUNT = "serviceaccounts"
    RESOURCE_CLAIM = "resourceclaims.resource.k8s.io"

    __hash__ = str.__hash__


class ObjectKey(NamedTuple):
    kind: Needed
    namespace: str
    name: str


class _PodNeeds(NamedTuple):
    needs: tuple[ObjectKey, ...]
    #: Of what decides what a pod needs, this alone can change once it is on a node.
    has_claim_statuses: bool


class _BoundVolume(NamedTuple):
    claim: ObjectKey
    secrets: tuple[ObjectKey, ...]


class _NodeName(View):
    node_name: str | None = None


class _OnNode(View):
    spec: _NodeName = _NodeName()


_decode_on_node: Final = msgspec.json.Decoder(_OnNode).decode
_NODE_NAME: Final = key_bytes("nodeName")
#: Of `resourceClaimStatuses` and of `extendedResourceClaimStatus`.
_CLAIM_STATUSES: Final = text_bytes("esourceClaimStatus")
#: How many pods of a node may be unread, of how many bytes each: what a question costs at most.
_MOST_UNREAD, _LARGEST_UNREAD = 500, 1 << 14
#: Pods of one workload need the same: so many lists, of so many names at most, are kept once for all of them.
_SHARED_LISTS, _LONGEST_SHARED = 1024, 16


class NodeGraph:
    """All of a cluster. What it is told of is the newest state of an object, None if that is gone."""

    def __init__(self) -> None:
        self._homes: dict[str, str] = {}  # the nodes of pods
        self._unread: dict[str, dict[str, bytes]] = {}  # by node: its pods of which nobody knows what they need
        self._needs: dict[str, _PodNeeds] = {}  # of all others
        self._shared: LruCache[tuple[ObjectKey, ...], tuple[ObjectKey, ...]] = LruCache(_SHARED_LISTS)
        self._counts: dict[ObjectKey, dict[str, int]] = {}  # by node: how many pods or volumes lead there
        self._volumes: dict[str, _BoundVolume] = {}
        self._volumes_of: dict[ObjectKey, set[str]] = {}
        self._attachments: dict[str, str] = {}
        self._slices: dict[str, str] = {}

    # -- questions

    def needs(self, node: str, kind: Needed, namespace: str, name: str) -> bool:
        """Whether something on the node makes it need that object."""
        self._read(node)
        return node in self._counts.get(ObjectKey(kind, namespace, name), ())

    def has_pod(self, node: str, namespace: str, name: str) -> bool:
        return self._homes.get(f"{namespace}/{name}") == node

    def needs_volume(self, node: str, name: str) -> bool:
        self._read(node)
        volume = self._volumes.get(name)
        return volume is not None and node in self._counts.get(volume.claim, ())

    def has_attachment(self, node: str, name: str) -> bool:
        return self._attachments.get(name) == node

    def has_slice(self, node: str, name: str) -> bool:
        return self._slices.get(name) == node

    # -- changes

    def observe_pod(self, namespace: str, name: str, raw: bytes | None) -> None:
        """Most changes of pods concern nobody here, and are told by their bytes."""
        key = f"{namespace}/{name}"
        node = self._homes.get(key)
        if raw is None:
            if node is not None:
                self._forget_needs(key, node)
                del self._homes[key]
            return
        if node is None:
            if _NODE_NAME not in raw or not (node := _decode_on_node(raw).spec.node_name):
                return
            self._homes[key] = node = sys.intern(node)
        elif (known := self._needs.get(key)) is not None:
            if not known.has_claim_statuses and _CLAIM_STATUSES not in raw:
                return
            self._forget_needs(key, node)
        unread = self._unread.setdefault(node, {})
        unread[key] = raw
        if len(unread) > _MOST_UNREAD or len(raw) > _LARGEST_UNREAD:
            self._read(node)

    def observe_volume(self, namespace: str, name: str, raw: bytes | None) -> None:
        old, new = self._volumes.get(name), None if raw is None else _bound(Encoded(raw).obj())
        if old == new:
            return
        if old is not None:
            for node in self._counts.get(old.claim, ()):
                self._remove_all(old.secrets, node)
            del self._volumes[name]
            self._volumes_of[old.claim].discard(name)
            if not self._volumes_of[old.claim]:
                del self._volumes_of[old.claim]
        if new is not None:
            self._volumes[name] = new
            self._volumes_of.setdefault(new.claim, set()).add(name)
            for node in self._counts.get(new.claim, ()):
                self._add_all(new.secrets, node)

    def observe_attachment(self, namespace: str, name: str, raw: bytes | None) -> None:
        _put_node(self._attachments, name, raw)

    def observe_slice(self, namespace: str, name: str, raw: bytes | None) -> None:
        _put_node(self._slices, name, raw)

    def _read(self, node: str) -> None:
        """Find out what the pods of a node need."""
        for key, raw in self._unread.pop(node, {}).items():
            needs = self._kept_once(tuple(dict.fromkeys(_needs_of(Encoded(raw).obj()))))
            self._needs[key] = _PodNeeds(needs, _CLAIM_STATUSES in raw)
            for needed in needs:
                self._add(needed, node)

    def _kept_once(self, needs: tuple[ObjectKey, ...]) -> tuple[ObjectKey, ...]:
        if len(needs) > _LONGEST_SHARED:
            return needs
        if (shared := self._shared.get(needs)) is None:
            self._shared.put(needs, needs)
        return shared or needs

    def _forget_needs(self, key: str, node: str) -> None:
        """What the pod needed, it needs no more, as far as anybody knows."""
        if (known := self._needs.pop(key, None)) is not None:
            for needed in known.needs:
                self._remove(needed, node)
        elif (unread := self._unread.get(node)) is not None:
            unread.pop(key, None)
            if not unread:
                del self._unread[node]

    def _add(self, needed: ObjectKey, node: str) -> None:
        nodes = self._counts.setdefault(needed, {})
        nodes[node] = nodes.get(node, 0) + 1
        if nodes[node] == 1:
            for volume in self._volumes_of.get(needed, ()):
                self._add_all(self._volumes[volume].secrets, node)

    def _remove(self, needed: ObjectKey, node: str) -> None:
        nodes = self._counts[needed]
        nodes[node] -= 1
        if nodes[node]:
            return
        del nodes[node]
        if not nodes:
            del self._counts[needed]
        for volume in self._volumes_of.get(needed, ()):
            self._remove_all(self._volumes[volume].secrets, node)

    def _add_all(self, secrets: Iterable[ObjectKey], node: str) -> None:
        for secret in secrets:
            self._add(secret, node)

    def _remove_all(self, secrets: Iterable[ObjectKey], node: str) -> None:
        for secret in secrets:
            self._remove(secret, node)


def _needs_of(pod: Obj) -> Iterator[ObjectKey]:
    """What a pod names; nothing if its node made it, which must not give itself rights by that."""
    meta, spec = metadata(pod), pod["spec"]
    if MIRROR in (meta.get("annotations") or {}):
        return
    namespace = meta["namespace"]
    if account := spec.get("serviceAccountName"):
        yield ObjectKey(Needed.ACCOUNT, namespace, account)
    for kind, found in (
        (Needed.SECRET, secret_names(spec)),
        (Needed.CONFIG_MAP, config_map_names(spec)),
        (Needed.CLAIM, claim_names(pod)),
        (Needed.RESOURCE_CLAIM, resource_claim_names(pod)),
    ):
        for name in filter(None, found):
            yield ObjectKey(kind, namespace, name)


def _bound(volume: Obj) -> _BoundVolume | None:
    """What hangs together through the volume; None while it has no claim."""
    claim = volume["spec"].get("claimRef")
    if claim is None:
        return None
    secrets = dict.fromkeys(ObjectKey(Needed.SECRET, *secret) for secret in volume_secret_names(volume))
    return _BoundVolume(ObjectKey(Needed.CLAIM, claim.get("namespace", ""), claim.get("name", "")), tuple(secrets))


def _put_node(nodes: dict[str, str], name: str, raw: bytes | None) -> None:
    node = None if raw is None else _decode_on_node(raw).spec.node_name
    if node:
        nodes[name] = node
    else:
        nodes.pop(name, None)
