"""The documents' manifests as they are written: their group is misspelt (S2-11).

A Consumer of that group is a wish. Its spec is copied to the namespace's Consumer whenever it changes, and what is said
there afterwards stands until it changes again. Its plural is another, so that `kubectl get consumers` means one thing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.objects import CONSUMERS, MISSPELT_GROUP, Consumer
from fairlead.client.informer import Informer

#: On a Consumer: which state of its twin it was copied from.
COPIED: Final = f"{MISSPELT_GROUP}/copied"

log = logging.getLogger(__name__)


async def copy(api: Api, twins: Iterable[Consumer], consumers: Informer[Consumer]) -> None:
    """Carry over what has changed; a refusal is logged, and tried again when something changes."""
    for twin in twins:
        known = consumers.get(twin.metadata.key)
        state = f"{twin.metadata.uid}/{twin.metadata.generation}"
        if known is None or known.metadata.annotations.get(COPIED) == state:
            continue
        try:
            await _copy(api, twin, known, state)
        except ApiError as error:
            log.warning("cannot copy the misspelt Consumer of %s: %s", twin.metadata.namespace, error)


async def _copy(api: Api, twin: Consumer, known: Consumer, state: str) -> None:
    """As a whole: what is not said any more must not stay."""
    meta, spec = known.metadata, msgspec.to_builtins(twin.spec)
    said = {key: value for key, value in spec.items() if value is not None}
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": {**meta.annotations, COPIED: state}},
        {"op": "add", "path": "/spec", "value": said},
    ]
    await api.patch(CONSUMERS, meta.name, meta.namespace, patch, PatchType.JSON)
