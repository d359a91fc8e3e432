"""Conversion webhooks: who turns objects of a custom kind from one version into another.

Objects are stored in the storage version of the time; each is converted when it is read or written in another one. What
was just converted is kept for a while, so that thousands of watchers of one version cost one call. Source:
apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairlead.api.encoded import Encoded, beginning, encode, encoded
from fairlead.api.errors import Unknown
from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj, metadata
from fairlead.api.selectors import validate_labels
from fairlead.client.calls import CallError
from fairlead.client.webhooks import WebhookClient, is_callable
from fairlead.golang.json import MalformedJson, parse
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import type_of
from fairlead.kinds.meta import validate_annotations
from fairlead.kinds.webhook_clients import REVIEW_VERSIONS
from fairlead.runtime import rng
from fairlead.runtime.offload import offload

if TYPE_CHECKING:
    from fairlead.server.crds.custom import VersionSchema

#: How long a call may take (kube-apiserver's clients of webhooks).
CALL_SECONDS: Final = 30.0
#: How many objects, and how many bytes of them, are converted by one call.
BATCH: Final = 500
_BATCH_BYTES: Final = 2 << 20
_MOST_ANSWERED: Final = 16 << 20
_KEPT_BYTES: Final = 16 << 20
_LONG: Final = 32 << 10
_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    converted_objects: list[Any] | None = None
    result: _Result = _Result()


class WebhookConverter:
    """Converts the objects of one custom kind."""

    def __init__(self, client: WebhookClient, conversion: Obj, kind: str, schemas: Mapping[str, VersionSchema]) -> None:
        self._client, self._kind, self._schemas = client, kind, schemas
        webhook = conversion["webhook"]
        self._config: Obj = webhook["clientConfig"]
        known = (name for name in webhook["conversionReviewVersions"] if name in REVIEW_VERSIONS)
        self._version = next(known)
        self._kept = _Kept()

    async def converted(self, obj: Obj, api_version: str) -> Obj:
        """The object in that version: itself, or another one. Raises `Unknown` with the reason if there is none."""
        if obj.get("apiVersion") == api_version:
            return obj
        return (await self._call([obj], api_version))[0]

    async def shown(self, entries: Sequence[Encoded], api_version: str) -> list[Encoded]:
        """Stored objects in that version."""
        start = beginning(self._kind, api_version)
        found = {id(entry): entry for entry in entries if entry.raw.startswith(start)}
        missing = []
        for entry in entries:
            kept = self._kept.find(entry, api_version)
            if kept is not None:
                found[id(entry)] = (await asyncio.shield(kept.task))[kept.index]
            elif id(entry) not in found:
                missing.append(entry)
        for batch in _batches(missing):
            task = asyncio.create_task(self._shown(batch, api_version))
            task.add_done_callback(_noted)
            if len(missing) <= BATCH:  # a long list is read once, and an event by many
                self._kept.put(batch, api_version, task)
            made = await asyncio.shield(task)
            found.update((id(entry), shown) for entry, shown in zip(batch, made, strict=True))
        return [found[id(entry)] for entry in entries]

    async def _shown(self, entries: Sequence[Encoded], api_version: str) -> list[Encoded]:
        objs = []
        for entry in entries:
            obj = entry.obj()
            objs.append(self._schemas[obj["apiVersion"]].shown(obj) if obj["apiVersion"] in self._schemas else obj)
        head = {"kind": self._kind, "apiVersion": api_version}
        return [encoded(head | {"metadata": obj["metadata"]} | obj) for obj in await self._call(objs, api_version)]

    async def _call(self, objs: Sequence[Obj], api_version: str) -> list[Obj]:
        """All of them in that version, by one call; none of them is in it."""
        who = f"conversion webhook for {objs[0]['apiVersion']}, Kind={self._kind}"
        if not is_callable():
            raise Unknown(f"{who} failed: webhooks are not called in virtual time")
        uid = rng.uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objs}
        body = encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{self._version}", "request": request})
        try:
            answer = await self._client.post(self._config, body, seconds=CALL_SECONDS, most=_MOST_ANSWERED)
        except CallError as error:
            raise Unknown(f"{who} failed: {error}") from None
        schema = self._schemas[api_version]

        def read() -> list[Obj]:
            try:
                found = _objects_in(answer, uid, self._version)
            except ValueError as error:
                raise Unknown(f"{who} failed: {error}") from None
            if len(found) != len(objs):
                raise Unknown(f"{who} returned {len(found)} objects, expected {len(objs)}")
            for index, (sent, obj) in enumerate(zip(objs, found, strict=True)):
                if fault := _restored(sent, obj, api_version):
                    what, why = fault
                    where = f"{what} in object at index {index}" if len(objs) > 1 else what
                    raise Unknown(f"{who} returned invalid {where}: {why}")
                schema.prune(obj)
            return found

        return await offload(read, is_long=len(answer) > _LONG)


def _batches(entries: Sequence[Encoded]) -> Iterator[list[Encoded]]:
    batch: list[Encoded] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == BATCH or size + len(entry.raw) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.raw)
    if batch:
        yield batch


def _noted(task: asyncio.Task[list[Encoded]]) -> None:
    """Whoever asked may have gone: then nobody hears why it failed."""
    if not task.cancelled():
        task.exception()


class _Made(msgspec.Struct, frozen=True):
    """A stored object, and where it is converted."""

    entry: Encoded
    task: asyncio.Task[list[Encoded]]
    index: int

    @property
    def has_failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


class _Kept:
    """What was just converted, or is being converted, for those who want the same."""

    def __init__(self) -> None:
        #: By identity, which an entry keeps as long as it is held here.
        self._known: OrderedDict[tuple[int, str], _Made] = OrderedDict()
        self._bytes = 0

    def find(self, entry: Encoded, api_version: str) -> _Made | None:
        known = self._known.get((id(entry), api_version))
        return None if known is None or known.has_failed else known

    def put(self, entries: Sequence[Encoded], api_version: str, task: asyncio.Task[list[Encoded]]) -> None:
        for index, entry in enumerate(entries):
            self._drop((id(entry), api_version))
            self._known[id(entry), api_version] = _Made(entry, task, index)
            self._bytes += len(entry.raw)
        while self._bytes > _KEPT_BYTES:
            self._drop(next(iter(self._known)))

    def _drop(self, key: tuple[int, str]) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= len(known.entry.raw)


def _objects_in(answer: bytes, uid: str, version: str) -> list[Obj]:
    """The converted objects; ValueError says why there are none."""
    try:
        review = parse(answer)
    except MalformedJson as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None
    fields: Obj = review if isinstance(review, dict) else {}
    expected, sent = f"{_GROUP}/{version}", (fields.get("apiVersion", ""), fields.get("kind", ""))
    if version == "v1" and sent != (expected, _KIND):
        where = sent[0] if "/" in str(sent[0]) else f"/{sent[0]}"
        raise ValueError(f"expected webhook response of {expected}, Kind={_KIND}, got {where}, Kind={sent[1]}")
    try:
        response = msgspec.convert(fields.get("response"), _Response | None)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if response is None:
        raise ValueError("no response provided")
    if version == "v1" and response.uid != uid:
        raise ValueError(f"expected response.uid={go_quote(uid)}, got {go_quote(response.uid)}")
    if response.result.status != "Success":
        text = f"response.result.status was '{response.result.status}', not 'Success'"
        raise ValueError(response.result.message or text)
    return [obj if isinstance(obj, dict) else {} for obj in response.converted_objects or ()]


def _restored(sent: Obj, obj: Obj, api_version: str) -> tuple[str, str] | None:
    """Give a converted object its metadata back, but for labels and annotations; what is wrong with it, and why."""
    group_version = obj.get("apiVersion", "")
    if group_version != api_version:
        return "object", f"invalid groupVersion (expected {api_version}, received {group_version})"
    if obj.get("kind", "") != sent["kind"]:
        return "object", f"invalid kind (expected {sent['kind']}, received {obj.get('kind', '')})"
    meta, own = obj.get("metadata"), metadata(sent)
    if isinstance(meta, dict):
        for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            if (before := own.get(key, "")) != (after := meta.get(key, "")):
                return "object", f"must have the same {name}: {before} != {after}"
    elif "metadata" not in obj:
        return "metadata", "missing metadata in converted object"
    else:
        return "metadata", f"invalid metadata of type {type_of(meta)} in converted object"
    kept = dict(own)
    for key in ("labels", "annotations"):
        kept.pop(key, None)
        if (found := meta.get(key)) is not None:
            if why := _fault_of_texts(key, found, own.get(key) or {}):
                return "metadata", why
            kept[key] = found
    obj["metadata"] = kept
    return None


def _fault_of_texts(key: str, found: Any, before: Mapping[str, str]) -> str:
    """What is wrong with labels or annotations that a webhook changed."""
    if not isinstance(found, dict):
        return f"invalid metadata.{key} of type {type_of(found)} in converted object"
    for name, value in found.items():
        if not isinstance(value, str):
            text = f"must be a string, but is {type_of(value)} in converted object"
            return f"metadata.{key}[{name}] {text}"
    if found == before:
        return ""
    errors = Errors()
    if key == "labels":
        validate_labels(found, errors, "metadata.labels")
    else:
        validate_annotations(found, errors, "metadata.annotation")
    return aggregated(errors) if errors else ""
