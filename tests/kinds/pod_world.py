"""Pods as the registry would hand them to the strategy, for the tests of its behaviour."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.pods import PodStrategy
from fairlead.server.codec.normalise import normalise

STRATEGY = PodStrategy()
_DEFINITION = "io.k8s.api.core.v1.Pod"


def pod(*, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A normal pod, not defaulted yet; `containers` is one ordinary container unless it is given."""
    metadata: Obj = {"name": "p", "namespace": "ns"}
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    obj: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container()], **spec},
    }
    normalise(obj, _DEFINITION)
    obj.pop("status", None)
    return obj


def container(**fields: Any) -> Obj:
    return {"name": "c", "image": "img:1", **fields}


def created(**spec: Any) -> Obj:
    """A pod as it is stored after its creation."""
    return asyncio.run(_created(pod(**spec)))


def warned_at_birth(**spec: Any) -> list[str]:
    """What is said of such a pod that cannot be told any more when it is stored."""
    return asyncio.run(_prepared(pod(**spec)))


async def _created(obj: Obj) -> Obj:
    await _prepared(obj)
    return obj


async def _prepared(obj: Obj) -> list[str]:
    STRATEGY.default(obj)
    return STRATEGY.prepare_create(obj)


def texts(errors: Errors) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


def refusals(**spec: Any) -> list[str]:
    """Everything that is said against such a pod at its creation."""
    errors = Errors()
    STRATEGY.validate(created(**spec), errors)
    return texts(errors)
