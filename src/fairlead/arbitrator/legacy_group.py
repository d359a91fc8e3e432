"""The documents' manifests as they are written: their group is misspelt (S2-11).

The spec of a Consumer of that group is copied to the namespace's Consumer whenever it changes; later edits there stand
until the next change. When it is deleted, the copied fields go, except those that were edited since. Its plural
differs, so that `kubectl get consumers` is unambiguous.
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

#: Annotation on a Consumer: the uid and generation of the legacy Consumer that was copied, and its spec then.
COPIED: Final = f"{MISSPELT_GROUP}/copied"
_NOTHING: Final[tuple[str, Obj]] = ("", {})

log = logging.getLogger(__name__)


async def copy(api: Api, legacy_consumers: Informer[Consumer], consumers: Iterable[Consumer]) -> None:
    """Copy what has changed; a refusal is logged, and tried again when something changes."""
    for consumer in consumers:
        legacy, copied = legacy_consumers.get(consumer.metadata.key), consumer.metadata.annotations.get(COPIED)
        if legacy is None and copied is None:
            continue
        state, before = _read(copied)
        try:
            if legacy is None:
                await _write(api, consumer, _without(consumer, before), None)
            elif state != (now := f"{legacy.metadata.uid}/{legacy.metadata.generation}"):
                spec = _own_spec(legacy)
                await _write(api, consumer, spec, msgspec.json.encode((now, spec)).decode())
        except ApiError as error:
            log.warning("cannot copy the misspelt Consumer of %s: %s", consumer.metadata.namespace, error)


def _own_spec(consumer: Consumer) -> Obj:
    return {key: value for key, value in msgspec.to_builtins(consumer.spec).items() if value is not None}


def _without(consumer: Consumer, copied: Obj) -> Obj:
    """The spec without what was copied: defaults take the place of fields that were not edited since."""
    spec = _own_spec(consumer)
    own = {key: value for key, value in spec.items() if key not in copied or value != copied[key]}
    default: Obj = new_consumer(default_consumer(consumer.metadata.namespace))["spec"]
    return default | own


def _read(copied: str | None) -> tuple[str, Obj]:
    """Anybody may write the annotation: one that does not decode counts as empty."""
    try:
        return _copied_of(copied or "")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _NOTHING


async def _write(api: Api, consumer: Consumer, spec: Obj, copied: str | None) -> None:
    """Replaces the whole spec, so that fields that are gone do not stay."""
    meta = consumer.metadata
    annotations = {key: text for key, text in meta.annotations.items() if key != COPIED}
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": annotations | ({COPIED: copied} if copied else {})},
        {"op": "add", "path": "/spec", "value": spec},
    ]
    await api.patch(CONSUMERS, meta.name, meta.namespace, patch, PatchType.JSON)


_copied_of = msgspec.json.Decoder(tuple[str, Obj]).decode
