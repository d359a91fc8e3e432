"""The documents' manifests as they are written: their group is misspelt (S2-11).

A Consumer of that group is a request: its spec is copied to the namespace's Consumer whenever it changes, and what
anybody writes there afterwards stands until it changes again. When it is deleted, what was copied goes, but for what
was written afterwards. Its plural is another, so that `kubectl get consumers` means one thing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.objects import CONSUMERS, MISSPELT_GROUP, Consumer, default_consumer, new_consumer
from fairlead.client.informer import Informer

#: On a Consumer: which state of its legacy Consumer it was copied from, and its spec then.
COPIED: Final = f"{MISSPELT_GROUP}/copied"
_NOTHING: Final[tuple[str, Obj]] = ("", {})

log = logging.getLogger(__name__)


async def copy(api: Api, legacy_consumers: Informer[Consumer], consumers: Iterable[Consumer]) -> None:
    """Carry over what has changed; a refusal is logged, and tried again when something changes."""
    for known in consumers:
        legacy, copied = legacy_consumers.get(known.metadata.key), known.metadata.annotations.get(COPIED)
        if legacy is None and copied is None:
            continue
        state, before = _read(copied)
        try:
            if legacy is None:
                await _write(api, known, _without(known, before), None)
            elif state != (now := f"{legacy.metadata.uid}/{legacy.metadata.generation}"):
                spec = _spec_of(legacy)
                await _write(api, known, spec, msgspec.json.encode((now, spec)).decode())
        except ApiError as error:
            log.warning("cannot copy the misspelt Consumer of %s: %s", known.metadata.namespace, error)


def _spec_of(consumer: Consumer) -> Obj:
    return {key: value for key, value in msgspec.to_builtins(consumer.spec).items() if value is not None}


def _without(known: Consumer, copied: Obj) -> Obj:
    """What the Consumer says by itself; else what it would say without a legacy Consumer."""
    spec = _spec_of(known)
    own = {key: value for key, value in spec.items() if key not in copied or value != copied[key]}
    default: Obj = new_consumer(default_consumer(known.metadata.namespace))["spec"]
    return default | own


def _read(copied: str | None) -> tuple[str, Obj]:
    """The annotation is in everybody's reach: nonsense says nothing."""
    try:
        return _copied_of(copied or "")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _NOTHING


async def _write(api: Api, known: Consumer, spec: Obj, copied: str | None) -> None:
    """As a whole: what is not said any more must not stay."""
    meta = known.metadata
    annotations = {key: text for key, text in meta.annotations.items() if key != COPIED}
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": annotations | ({COPIED: copied} if copied else {})},
        {"op": "add", "path": "/spec", "value": spec},
    ]
    await api.patch(CONSUMERS, meta.name, meta.namespace, patch, PatchType.JSON)


_copied_of = msgspec.json.Decoder(tuple[str, Obj]).decode
