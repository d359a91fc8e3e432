"""Puts the default roles and bindings into a cluster, at every start: what is missing of them comes back.

Who wants to keep a role or a binding as it is says so by its annotation. Source: component-helpers,
auth/rbac/reconciliation (1.36), as the post-start hook uses it: it adds and never takes away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy

import msgspec

from fairlead.api.errors import AlreadyExists, Conflict, NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.roles import PolicyRule
from fairlead.server.auth.rbac.defaults import AUTO_UPDATE, default_policy
from fairlead.server.auth.rbac.rules import as_rules, not_covered
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry


async def reconcile(registry: Registry, further: Sequence[Obj] = ()) -> None:
    """Create what is missing, and complete what is there; all at once, as one group commit takes them.

    `further` are the roles and bindings of components that Kubernetes does not know.
    """
    rows = {row.kind: row for row in registry.catalogue.rows() if row.api_version == default_policy()[0]["apiVersion"]}
    await asyncio.gather(*(_ensure(registry, rows[obj["kind"]], obj) for obj in (*default_policy(), *further)))


async def _ensure(registry: Registry, row: Resource, wanted: Obj) -> None:
    meta = metadata(wanted)
    name, namespace = meta["name"], meta.get("namespace", "")
    found = registry.find(row.qualified, name, namespace)
    if found is None:
        try:
            await registry.create(INTERNAL, row, deepcopy(wanted), namespace)
        except AlreadyExists:  # another server over the same store was faster
            return
        return
    present = found.obj()
    if (metadata(present).get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return
    if "roleRef" in wanted and present["roleRef"] != wanted["roleRef"]:
        await registry.delete(INTERNAL, row, name, namespace)
        await registry.create(INTERNAL, row, deepcopy(wanted), namespace)
    elif (complete := completed(present, wanted)) != present:
        try:
            await registry.update(INTERNAL, row, complete)
        except (Conflict, NotFound):  # somebody changes it right now; the next start looks again
            return


def completed(present: Obj, wanted: Obj) -> Obj:
    """What is there, with what it lacks of what it should have."""
    new = deepcopy(present)
    for part in ("labels", "annotations"):
        new["metadata"][part] = metadata(wanted)[part] | (metadata(present).get(part) or {})
    if "roleRef" in wanted:
        subjects = present.get("subjects") or []
        lacking = [subject for subject in wanted["subjects"] or () if subject not in subjects]
        new["subjects"] = [*subjects, *lacking] or None
    elif "aggregationRule" in wanted:
        new["aggregationRule"] = new.get("aggregationRule") or wanted["aggregationRule"]
    else:
        new["rules"] = _completed_rules(present.get("rules") or [], wanted["rules"] or []) or None
    return {key: value for key, value in new.items() if value is not None or key in present}


def _completed_rules(present: list[Obj], wanted: list[Obj]) -> list[Obj]:
    rules = msgspec.convert([present, wanted], tuple[tuple[PolicyRule, ...], tuple[PolicyRule, ...]])
    lacking = as_rules(not_covered(*rules))
    return [*present, *(_shown(rule) for rule in lacking)]


def _shown(rule: PolicyRule) -> Obj:
    return {key: value for key, value in msgspec.to_builtins(rule).items() if value is not None}
