"""Takes objects through what the registry does to them, without a registry."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fairlead.api.builtin import RESOURCES
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.kinds.meta import validate_meta, validate_meta_update
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.table import STRATEGIES
from fairlead.server.codec.normalise import normalise, zero_object
from fairlead.server.crds.definition import STRATEGY as CRD_STRATEGY

UID = "11111111-2222-4333-8444-555555555555"
POD: Obj = {"containers": [{"name": "c", "image": "img:1"}]}
TEMPLATE: Obj = {"metadata": {"labels": {"app": "a"}}, "spec": POD}


def row_of(kind: str) -> Resource:
    return next(row for row in RESOURCES if row.kind == kind)


def strategy_of(kind: str) -> Strategy:
    known = {**STRATEGIES, "customresourcedefinitions.apiextensions.k8s.io": CRD_STRATEGY}
    return known[row_of(kind).qualified]


def born(kind: str, **fields: Any) -> tuple[Obj, list[str]]:
    """A new object as it would be stored, and what is wrong with it. `meta` adds to its metadata."""
    row, strategy = row_of(kind), strategy_of(kind)
    meta = {"name": "x"} | ({"namespace": "ns"} if row.namespaced else {}) | fields.pop("meta", {})
    obj = copy.deepcopy({"kind": kind, "apiVersion": row.api_version, "metadata": meta} | fields)
    normalise(obj, row.definition)
    strategy.default(obj)
    metadata(obj).update({"uid": UID, "creationTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "1"})
    if strategy.has_generation:
        metadata(obj)["generation"] = 1
    if strategy.has_status and (status := zero_object(row.definition).get("status")) is not None:
        obj["status"] = status
    strategy.prepare_create(obj)
    errors = Errors()
    validate_meta(obj, errors, resource=row)
    strategy.validate(obj, errors)
    strategy.finish_create(obj)
    return obj, messages(errors)


def made(kind: str, **fields: Any) -> Obj:
    """A new object that nothing is wrong with."""
    obj, refusals = born(kind, **fields)
    assert refusals == []
    return obj


def updated(old: Obj, change: Callable[[Obj], Any]) -> tuple[Obj, list[str]]:
    """The object after somebody changed it, and what is wrong with that."""
    row, strategy = row_of(old["kind"]), strategy_of(old["kind"])
    obj = _changed(old, change, row, strategy)
    strategy.prepare_update(obj, old)
    errors = Errors()
    validate_meta_update(obj, old, errors, resource=row, again=strategy.meta_checks)
    strategy.validate_update(obj, old, errors)
    return obj, messages(errors)


def status_refusals(old: Obj, status: Obj) -> list[str]:
    """What is wrong with writing a status."""
    row, strategy = row_of(old["kind"]), strategy_of(old["kind"])
    obj = _changed(old, lambda new: new.update(status=copy.deepcopy(status)), row, strategy)
    errors = Errors()
    strategy.validate_status(obj, old, errors)
    return messages(errors)


def warnings(obj: Obj, old: Obj | None = None) -> list[str]:
    """What is said about an object that is made, or changed from `old`."""
    return strategy_of(obj["kind"]).warnings(obj, old)


def _changed(old: Obj, change: Callable[[Obj], Any], row: Resource, strategy: Strategy) -> Obj:
    obj = copy.deepcopy(old)
    change(obj)
    normalise(obj, row.definition)
    strategy.default(obj)
    return obj


def messages(errors: Errors) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in errors]
