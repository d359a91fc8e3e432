"""Loads a dump of a real cluster: objects as they were, with their uids and status, past admission.

What a dump holds was admitted once, by another server; judging it again would lose what no longer passes. Names, owners
and statuses are kept, so that what follows starts from the state that the dump shows. The rules of a kind hold all the
same, for everything else in this process relies on them: every object is checked before the first is stored. What no
server has had yet is created, and so admitted, after that (`restore_new.py`).

    read: find the kind ▸ normalise ▸ default ▸ validate     definitions ▸ namespaces ▸ the rest     ▸ store ▸ create
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fairlead.api.builtin import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from fairlead.api.claims import BIND_COMPLETED
from fairlead.api.encoded import copied
from fairlead.api.errors import ApiError
from fairlead.api.fields import Errors
from fairlead.api.names import path_segment_name
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.volumes import storage_class_of
from fairlead.kinds.meta import validate_meta
from fairlead.runtime import rng
from fairlead.runtime.clock import timestamp
from fairlead.server.admission.service_account import DEFAULT_ACCOUNT
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.crds import naming
from fairlead.server.crds.custom import custom_kind
from fairlead.server.registry.registry import Registry
from fairlead.server.registry.restore_classes import ClassesOfPods
from fairlead.server.registry.restore_new import GeneratedNames, NewObject, is_new
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.catalogue import Catalogue, Served

#: Kinds that other kinds need are read and stored first.
_FIRST = {CUSTOM_RESOURCE_DEFINITIONS.kind: 0, NAMESPACES.kind: 1}
_TEMPLATE = ("template", "spec")
#: The kinds that have pods, and where in their spec that of a pod is.
_WITH_PODS = {
    "Pod": (),
    "CronJob": ("jobTemplate", "spec", *_TEMPLATE),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"), _TEMPLATE
    ),
}
#: Kinds that are there before anything is admitted, as new ones too: others are of them, in them or on them.
_BEFORE_ADMISSION = frozenset({CUSTOM_RESOURCE_DEFINITIONS.qualified, NAMESPACES.qualified, NODES.qualified})
#: How many problems of an object a message lists.
_MAX_PROBLEMS = 3
#: How the message of a rule ends that holds for new objects alone: a debugged pod has ephemeral containers.
_ONLY_ON_CREATE = "cannot be set on create"


class Unrestorable(ValueError):
    """An object that cannot be stored; says which one, and why."""

    #: The object, where it is one of a dump.
    about: Obj | None = None


class _UnknownKind(Unrestorable):
    """An object of a kind that is not served here; the rest of the dump makes sense without it."""


class Restored(msgspec.Struct):
    """What came of a dump: how many objects were stored, and how many skipped for their kind is not served; by kind."""

    stored: Counter[str] = msgspec.field(default_factory=Counter)
    skipped: Counter[str] = msgspec.field(default_factory=Counter)


def check(catalogue: Catalogue, obj: Obj) -> None:
    """Make an object normal and complete; raises Unrestorable for one that no server would take."""
    served, kind = _kind_of(obj, catalogue)
    _identity(kind, obj)
    served.strategy.default(obj)
    _check(served, obj)


async def restore(registry: Registry, objects: Sequence[Obj], own: Iterable[Obj] = ()) -> Restored:
    """Store the objects that do not exist yet, except those of unknown kinds; our `own` come first and are not counted.

    Raises Unrestorable for what cannot be stored, and then leaves nothing of it behind.
    """
    present = {uid for obj in objects if (uid := _uid(obj))}
    if present:
        rng.diverge_from(present)
    plan = _Plan(registry, present)
    for obj in own:
        plan.read(obj)
    plan.restored, names = Restored(), GeneratedNames()
    for obj in sorted(objects, key=lambda obj: _FIRST.get(str(obj.get("kind")), len(_FIRST))):
        try:
            names.name(obj)
            plan.read(obj, may_be_new=True)
        except _UnknownKind:
            plan.restored.skipped[f"{obj['kind']} ({obj['apiVersion']})"] += 1
        except Unrestorable as error:
            error.about = obj
            raise
    plan.add_accounts()
    plan.add_classes()
    plan.add_volumes()
    await plan.carry_out()
    return plan.restored


class _Plan(msgspec.Struct):
    """What is going to be stored, by key, in order."""

    registry: Registry
    present: set[str]  # the uids in the dump
    values: dict[str, bytes] = msgspec.field(default_factory=dict)
    restored: Restored = msgspec.field(default_factory=Restored)
    dumped: Catalogue = msgspec.field(default_factory=Catalogue)  # custom kinds that the dump itself defines
    names: naming.NamesInUse | None = None  # of definitions, as soon as there is one
    #: The service accounts that pods run as, by namespace.
    accounts: set[tuple[str, str]] = msgspec.field(default_factory=set)
    classes: ClassesOfPods = msgspec.field(default_factory=ClassesOfPods)
    bound_claims: list[Obj] = msgspec.field(default_factory=list)
    owners: dict[str, str] = msgspec.field(default_factory=dict)  # by uid: what has it
    new: dict[str, NewObject] = msgspec.field(default_factory=dict)  # by key: what is created after the rest is stored

    def read(self, obj: Obj, *, may_be_new: bool = False) -> None:
        """Take an object in, unless it is there already. Raises Unrestorable if it cannot be."""
        served, kind = _kind_of(obj, self.registry.catalogue, self.dumped)
        new = is_new(obj)
        namespace, name = _identity(kind, obj, is_strict=new and may_be_new)
        if self._is_there(served, namespace, name):
            return
        _drop_missing_owners(obj, self.present)
        if spec := _pod_spec_of(obj):
            self.classes.note(spec)
            if account := spec.get("serviceAccountName"):
                self.accounts.add((namespace, account))
        self.restored.stored[obj["kind"]] += 1
        if new and may_be_new and _is_admitted(served):
            self._create(served, kind, namespace, obj)
            return
        stored = kind.to_stored(obj) if kind.to_stored else obj
        self._plan(served, stored, is_new=new)
        if served.resource.qualified == PERSISTENT_VOLUME_CLAIMS.qualified and _is_bound(stored):
            self.bound_claims.append(stored)

    def add_accounts(self) -> None:
        """The service accounts that the dump lacks: they were there, and without them no pod could be replaced."""
        for namespace, name in sorted(self.accounts):
            self._add_empty(SERVICE_ACCOUNTS, name, namespace)

    def add_classes(self) -> None:
        """The classes that pods name and the dump lacks."""
        for resource, obj in self.classes.objects():
            self._add(resource, obj)

    def add_volumes(self) -> None:
        """The volumes that the dump lacks: without them its claims would count as lost."""
        for claim in self.bound_claims:
            self._add(PERSISTENT_VOLUMES, _volume_of(claim), is_new=False)

    async def carry_out(self) -> None:
        """Store what was read, then create what is new."""
        keys = list(self.values)
        for key, value in self.values.items():
            await self.registry.store.put(key, value, 0)
        try:
            with self.registry.webhooks.silent():
                for key, new in sorted(self.new.items(), key=lambda entry: entry[1].turn):
                    await new.create(self.registry)
                    keys.append(key)
        except ApiError as error:
            await self._take_back(keys)
            refused = Unrestorable(f"{_description(new.obj)} cannot be stored: {error.message}")
            refused.about = new.obj
            raise refused from None

    async def _take_back(self, keys: Iterable[str]) -> None:
        for key in keys:
            if (record := (await self.registry.store.head(key)).record) is not None:
                await self.registry.store.delete(key, record.revision)

    def _create(self, served: Served, kind: ServedVersion, namespace: str, obj: Obj) -> None:
        """Create an object when the rest is stored."""
        self.new[served.key(namespace, metadata(obj)["name"])] = NewObject(kind.resource, namespace, copied(obj))
        if served.resource.qualified == PODS.qualified:  # whose account a controller would have made before
            self.accounts.add((namespace, obj["spec"].get("serviceAccountName") or DEFAULT_ACCOUNT))
        # the rules of a Service want addresses, which it gets when it is created
        if served.resource.qualified != SERVICES.qualified:
            _complete(served, kind.to_stored(obj) if kind.to_stored else obj, is_new=True)
        if namespace:
            self._add_empty(NAMESPACES, namespace)

    def _is_there(self, served: Served, namespace: str, name: str) -> bool:
        key = served.key(namespace, name)
        is_planned = key in self.values or key in self.new
        return is_planned or self.registry.find(served.resource.qualified, name, namespace) is not None

    def _plan(self, served: Served, obj: Obj, *, is_new: bool) -> None:
        """Plan to store an object, with the fields that every stored object has; `is_new`: no server has had it yet."""
        meta = metadata(obj)
        _complete(served, obj, is_new=is_new)
        if _is_definition(served):
            self._define(obj)
        namespace = meta.get("namespace", "")
        if namespace:
            self._add_empty(NAMESPACES, namespace)
        self._check_uid(f"{served.resource.kind} {'/'.join(filter(None, (namespace, meta['name'])))}", meta["uid"])
        self.values[served.key(namespace, meta["name"])] = served.encode(obj)

    def _check_uid(self, shown: str, uid: str) -> None:
        """Controllers of two objects with one uid would take each other's pods for ever."""
        other = self.owners.setdefault(uid, shown)
        if other != shown:
            raise Unrestorable(f"{shown} has the uid of {other} ({uid}): no two objects have the same")

    def _define(self, crd: Obj) -> None:
        """Make the kind of a definition known to the rest of the dump; the server serves it once it is stored."""
        if self.names is None:
            stored = self.registry.each(CUSTOM_RESOURCE_DEFINITIONS.qualified)
            self.names = naming.NamesInUse(entry.obj() for entry in stored)
        self.names.note(crd)
        crd["status"] = naming.settled(crd, self.names, timestamp()) or crd["status"]
        self.names.note(crd)
        if naming.is_true(crd["status"], "Established"):
            kind = custom_kind(crd, self.registry.webhooks)
            name = metadata(crd)["name"]
            self.dumped.add(Served(kind.resource, kind.strategy, Cache(name), kind.versions, crd))

    def _add_empty(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Add an object with nothing but a name, unless it exists."""
        meta = {"name": name} | ({"namespace": namespace} if namespace else {})
        self._add(resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta})

    def _add(self, resource: Resource, made: Obj, *, is_new: bool = True) -> None:
        """Add an object that the dump lacks, unless it exists."""
        served, version = self.registry.catalogue.of(resource)
        meta = metadata(made)
        if not self._is_there(served, meta.get("namespace", ""), meta["name"]):
            version.normalise(made)
            self._plan(served, made, is_new=is_new)


def _is_bound(claim: Obj) -> bool:
    is_complete = BIND_COMPLETED in (metadata(claim).get("annotations") or {})
    return is_complete and bool(claim["spec"].get("volumeName")) and claim["status"].get("phase") == "Bound"


def _volume_of(claim: Obj) -> Obj:
    """The volume that a claim is bound to, as far as the claim knows it; where it can be reached, it does not."""
    meta, spec = metadata(claim), claim["spec"]
    ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    volume: Obj = {
        "accessModes": spec.get("accessModes"),
        "capacity": claim["status"].get("capacity") or spec["resources"]["requests"],
        "claimRef": ref | {key: meta[key] for key in ("namespace", "name", "uid")},
        "csi": {"driver": "unknown", "volumeHandle": spec["volumeName"]},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class_of(claim) or "",
        "volumeMode": spec.get("volumeMode"),
    }
    kind = {"apiVersion": PERSISTENT_VOLUMES.api_version, "kind": PERSISTENT_VOLUMES.kind}
    return kind | {"metadata": {"name": spec["volumeName"]}, "spec": volume, "status": {"phase": "Bound"}}


def _pod_spec_of(obj: Obj) -> Obj:
    """The spec of the object's pods; empty if it has none."""
    spec: Any = obj.get("spec") if obj["kind"] in _WITH_PODS else None
    for step in _WITH_PODS.get(obj["kind"], ()):
        spec = spec.get(step) if isinstance(spec, dict) else None
    return spec if isinstance(spec, dict) else {}


def _kind_of(obj: Obj, *catalogues: Catalogue) -> tuple[Served, ServedVersion]:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    for catalogue in catalogues:
        if found := catalogue.of_kind(group, version, str(obj.get("kind"))):
            return found
    problem = f"{_description(obj)} of {obj.get('apiVersion')} is not a kind that this server serves"
    is_readable = bool(obj.get("kind")) and isinstance(obj.get("kind"), str) and isinstance(obj.get("apiVersion"), str)
    raise _UnknownKind(problem) if is_readable else Unrestorable(problem)


def _uid(obj: Obj) -> str:
    """The uid of an object that may be malformed; empty if it has none."""
    meta = obj.get("metadata")
    return str(meta.get("uid") or "") if isinstance(meta, dict) else ""


def _drop_missing_owners(obj: Obj, present: set[str]) -> None:
    """Drop references to owners that the dump lacks: the garbage collector would delete the object for them."""
    meta = metadata(obj)
    if owners := meta.get("ownerReferences"):
        meta["ownerReferences"] = [owner for owner in owners if owner.get("uid") in present]


def _identity(kind: ServedVersion, obj: Obj, *, is_strict: bool = False) -> tuple[str, str]:
    """Normalise the object; its namespace and name. Raises Unrestorable if they make no valid key.

    `is_strict`: as for kubectl, a field that its kind does not know is a mistake. In a dump it is of a newer version.
    """
    try:
        unknown = kind.normalise(obj)
    except ApiError as error:
        raise Unrestorable(f"{_description(obj)}: {error.message}") from None
    if unknown and is_strict:
        raise Unrestorable(f"{_description(obj)}: {', '.join(unknown)}")
    meta = metadata(obj)
    name, namespace = meta.get("name", ""), ""
    if kind.resource.namespaced:
        namespace = meta["namespace"] = meta.get("namespace") or "default"
    else:
        meta.pop("namespace", None)
    for part, text in (("name", name), ("namespace", namespace)):
        if problems := path_segment_name(text):
            raise Unrestorable(f"{obj['kind']} {name!r} has a {part} that is not possible: {', '.join(problems)}")
    if not name:
        raise Unrestorable(f"a {obj['kind']} has no name")
    return namespace, name


def _complete(served: Served, obj: Obj, *, is_new: bool) -> None:
    """Give it the fields that every stored object has; `is_new`: no server has had it yet. Raises Unrestorable."""
    meta = metadata(obj)
    meta["uid"] = meta.get("uid") or rng.uid()
    meta["creationTimestamp"] = meta.get("creationTimestamp") or timestamp()
    if served.strategy.has_generation:
        meta.setdefault("generation", 1)
    served.strategy.default(obj)
    if is_new or (_is_definition(served) and not (obj["status"].get("acceptedNames") or {}).get("plural")):
        served.strategy.prepare_create(obj)
    _check(served, obj)
    served.strategy.finish_create(obj)


def _is_definition(served: Served) -> bool:
    return served.resource.qualified == CUSTOM_RESOURCE_DEFINITIONS.qualified


def _is_admitted(served: Served) -> bool:
    """Whether new ones of the kind are created as by a client. Custom kinds are served only when the server runs."""
    return served.crd is None and served.resource.qualified not in _BEFORE_ADMISSION


def _check(served: Served, obj: Obj) -> None:
    """Raises Unrestorable for an object that breaks the rules of its kind."""
    errors = Errors()
    validate_meta(obj, errors, resource=served.resource)
    served.strategy.validate_admitted(obj, errors)
    broken = [f"{error.field}: {error.message}" for error in errors if not error.message.endswith(_ONLY_ON_CREATE)]
    if broken:
        more = "; …" if len(broken) > _MAX_PROBLEMS else ""
        raise Unrestorable(f"{_description(obj)} cannot be stored: {'; '.join(broken[:_MAX_PROBLEMS])}{more}")


def _description(obj: Obj) -> str:
    """Kind and name of an object, for messages."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
    return f"{obj.get('kind')} {name}".rstrip()
