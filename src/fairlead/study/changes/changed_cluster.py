"""What a step of a change works with: the cluster as its administrator sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj, metadata
from fairlead.api.patches.bodies import PatchDoesNotApply, PatchFailed
from fairlead.api.pods import Pod
from fairlead.api.resources import Resource
from fairlead.api.selector_text import parse as parse_selector
from fairlead.api.verbs import BACKGROUND, PatchType, WriteOptions
from fairlead.client.informer import Informers
from fairlead.server.apply.field_managers import form_of
from fairlead.server.apply.last_applied import as_applied_by
from fairlead.server.registry.registry import UserApi

#: As kubectl, which has misspelt fields refused.
_STRICT = WriteOptions(field_validation="Strict")
_MANAGER = WriteOptions(field_manager="fairlead-simulate", field_validation="Strict", force=True)


#: Fields of a spec that say how many pods there are to be at once, and how many are not refused: more than seven times
#: as many as Kubernetes is made for, whose creation would take the memory of the machine.
_COUNTS = ("replicas", "parallelism")
_MOST_PODS = 1_000_000


class NothingThere(ValueError):
    """A step speaks of something that the cluster does not have, or that it refuses."""


class HeldUp(msgspec.Struct, frozen=True):
    """A pod that a drain would evict and may not, and what is in the way."""

    pod: str
    priority: int
    node: str
    message: str

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]


@dataclass
class ChangedCluster:
    api: UserApi
    informers: Informers
    #: What an hour of a node costs, by node; of those that pools have made.
    prices: dict[str, float] = field(default_factory=dict)
    #: By uid; those that are gone meanwhile are left in.
    _held_up: dict[str, HeldUp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = self.informers.of(NODES, Node)
        self.pods = self.informers.of(PODS, Pod)
        self._awaited: dict[str, asyncio.Event] = {}  # by node that is to become ready
        self.nodes.subscribe(self._node)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and new.is_ready and (event := self._awaited.pop(new.metadata.name, None)) is not None:
            event.set()

    async def ready(self, name: str) -> None:
        """Return once the node is there and ready."""
        node = self.nodes.get(name)
        if node is None or not node.is_ready:
            await self._awaited.setdefault(name, asyncio.Event()).wait()

    def hold_up(self, pod: Pod, message: str) -> None:
        held = HeldUp(pod.metadata.key, pod.spec.priority or 0, pod.spec.node_name, message)
        self._held_up[pod.metadata.uid] = held

    def let_go(self, pod: Pod) -> None:
        self._held_up.pop(pod.metadata.uid, None)

    @property
    def held_up(self) -> list[HeldUp]:
        """Those that are still there."""
        there = {pod.metadata.uid for pod in self.pods}
        return sorted((held for uid, held in self._held_up.items() if uid in there), key=lambda held: held.pod)

    def kind(self, word: str, api_version: str = "") -> Resource:
        """The kind that a word names, as kubectl understands it: `quota`, `deploy`, `ResourceQuota`."""
        rows = self.api.registry.catalogue.rows()
        wanted = word.lower()
        for row in rows:
            if api_version and row.api_version != api_version:
                continue
            if wanted in (row.kind.lower(), row.plural, row.singular, row.qualified, *row.short_names):
                return row
        raise NothingThere(f"no kind {word!r} is served here")

    async def get(self, kind: Resource, name: str, namespace: str) -> Obj:
        try:
            return (await self.api.get(kind, name, namespace if kind.namespaced else "")).obj()
        except NotFound:
            raise NothingThere(f"there is no {_noun(kind, name, namespace)}") from None

    async def apply(self, manifest: Obj) -> None:
        """As `kubectl apply`: create the object, or change the fields that the manifest has."""
        _check_count(manifest)
        kind = self.kind(str(manifest.get("kind", "")), str(manifest.get("apiVersion", "")))
        meta = metadata(manifest)
        namespace = (meta.get("namespace") or "default") if kind.namespaced else ""
        name = meta.get("name")
        try:
            if not name:
                await self.api.create(kind, manifest, namespace, options=_STRICT)
            else:
                await self._take_over(kind, name, namespace)
                await self.api.patch(kind, name, namespace, manifest, PatchType.APPLY, options=_MANAGER)
        except ApiError as error:
            raise NothingThere(
                f"{_noun(kind, name or '(without a name)', namespace)} is refused: {_why(error)}"
            ) from None

    async def _take_over(self, kind: Resource, name: str, namespace: str) -> None:
        """What kubectl applied before the dump counts as applied by us: what the manifest has no more goes."""
        try:
            live = (await self.api.get(kind, name, namespace)).obj()
        except NotFound:
            return
        served, _ = self.api.registry.catalogue.of(kind)
        entry = as_applied_by(_MANAGER.field_manager, live, form_of(served, kind))
        if entry is None or metadata(live).get("managedFields"):
            return

        def owned(stored: Obj) -> Obj:
            metadata(stored)["managedFields"] = [entry]
            return stored

        await self.api.registry.guaranteed_update(kind.qualified, name, namespace, owned)

    async def patch(
        self, kind: Resource, name: str, namespace: str, patch: object, type_: PatchType, *, subresource: str = ""
    ) -> None:
        _check_count(patch)
        where = namespace if kind.namespaced else ""
        try:
            await self.api.patch(kind, name, where, patch, type_, subresource=subresource, options=_STRICT)
        except NotFound:
            raise NothingThere(f"there is no {_noun(kind, name, namespace)}") from None
        except ApiError as error:
            raise NothingThere(f"the change of {_noun(kind, name, namespace)} is refused: {_why(error)}") from None

    async def delete(self, kind: Resource, name: str, namespace: str) -> None:
        """As `kubectl delete`: what it has made goes, too."""
        try:
            await self.api.delete(kind, name, namespace if kind.namespaced else "", BACKGROUND)
        except NotFound:
            raise NothingThere(f"there is no {_noun(kind, name, namespace)}") from None
        except ApiError as error:
            raise NothingThere(f"{_noun(kind, name, namespace)} cannot be deleted: {error}") from None

    async def replace(self, kind: Resource, obj: Obj) -> None:
        """As `kubectl replace --force`, of an object of the whole cluster: another one, of the same name."""
        meta = {key: value for key, value in metadata(obj).items() if key in ("name", "labels", "annotations")}
        await self.delete(kind, meta["name"], "")
        await self.apply(obj | {"metadata": meta})

    def node(self, name: str) -> Node:
        found = self.nodes.get(name)
        if found is None:
            raise NothingThere(f"there is no node {name!r}")
        return found

    def nodes_of(self, selector: str) -> list[Node]:
        """By a selector of labels, by name."""
        try:
            wanted = parse_selector(selector)
        except (ValueError, ApiError) as problem:
            raise NothingThere(f"selector {selector!r}: {problem}") from None
        found = [node for node in self.nodes if wanted.matches(node.metadata.labels)]
        if not found:
            raise NothingThere(f"no node has the labels {selector!r}")
        return sorted(found, key=lambda node: natural(node.metadata.name))

    def pods_on(self, node: str) -> list[Pod]:
        return sorted((pod for pod in self.pods if pod.spec.node_name == node), key=lambda pod: pod.metadata.key)


def _check_count(body: object) -> None:
    """Raises NothingThere where that cannot be meant: a nought too many is seen late otherwise."""
    spec = body.get("spec") if isinstance(body, dict) else None
    if not isinstance(spec, dict):
        return
    for field_ in _COUNTS:
        count = spec.get(field_)
        if isinstance(count, int) and count > _MOST_PODS:
            raise NothingThere(f"{field_}: {count:,} pods are more than any cluster has ({_MOST_PODS:,} at most)")


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key: `node-2` before `node-10`."""
    parts: list[tuple[int, int | str]] = []
    for is_number, text in _runs(name):
        parts.append((0, int(text)) if is_number else (1, text))
    return tuple(parts)


def _runs(name: str) -> Iterable[tuple[bool, str]]:
    run = ""
    for letter in name:
        if run and letter.isdecimal() != run[-1].isdecimal():
            yield run[-1].isdecimal(), run
            run = ""
        run += letter
    if run:
        yield run[-1].isdecimal(), run


def _why(error: ApiError) -> str:
    """What is wrong, without the patch or object that a refusal quotes as a whole."""
    if isinstance(error, PatchFailed | PatchDoesNotApply) and error.why:
        return error.why
    unread = [cause.message.rpartition('": ')[2] for cause in error.causes if cause.field == "patch"]
    return "; ".join(unread) or str(error)


def _noun(kind: Resource, name: str, namespace: str) -> str:
    where = f" in namespace {namespace!r}" if kind.namespaced and namespace else ""
    return f"{kind.kind} {name!r}{where}"
