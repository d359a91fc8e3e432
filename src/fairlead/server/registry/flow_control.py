"""Keeps the FlowSchemas and PriorityLevelConfigurations that every cluster has, and tells which schemas lead nowhere.

Source: apiserver, util/flowcontrol/apf_controller.go; pkg/registry/flowcontrol/ensurer (1.36). Upstream looks every
minute; here it is looked when one of them has changed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from fairlead.api import conditions
from fairlead.api.builtin import FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS
from fairlead.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from fairlead.api.flow_control import AUTO_UPDATE
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.golang.quoting import go_quote
from fairlead.kinds.flow_defaults import MANDATORY, flow_schemas, priority_levels
from fairlead.runtime.clock import timestamp
from fairlead.server.context import INTERNAL
from fairlead.server.fairness.fairness import Fairness
from fairlead.server.registry.registry import Registry

#: How long to leave alone what somebody else keeps changing.
_PAUSE_SECONDS: Final = 1.0
_DANGLING: Final = "Dangling"

log = logging.getLogger(__name__)


async def settle(registry: Registry, fairness: Fairness) -> None:
    """Create what is missing, bring back what may not be changed, and tell which schemas have no level.

    All at once, as one group commit takes them.
    """
    await asyncio.gather(
        *(_ensure(registry, PRIORITY_LEVEL_CONFIGURATIONS, level) for level in priority_levels()),
        *(_ensure(registry, FLOW_SCHEMAS, schema) for schema in flow_schemas()),
    )
    listed = await registry.list(FLOW_SCHEMAS)
    await asyncio.gather(*(_tell(registry, fairness, entry.obj()) for entry in listed.items))


async def keep(registry: Registry, fairness: Fairness) -> None:
    """Look again whenever something has changed, until cancelled."""
    while True:
        await fairness.changed.wait()
        fairness.changed.clear()
        try:
            await settle(registry, fairness)
        except ApiError as error:  # the store cannot write; the next change comes
            log.warning("flow control: %s", error)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _ensure(registry: Registry, resource: Resource, wanted: Obj) -> None:
    meta = metadata(wanted)
    name = meta["name"]
    found = registry.find(resource.qualified, name)
    try:
        if found is None:
            meta["annotations"] = {AUTO_UPDATE: "true"}
            await registry.create(INTERNAL, resource, wanted)
            return
        present = found.obj()
        is_ours = name in MANDATORY or (metadata(present).get("annotations") or {}).get(AUTO_UPDATE) == "true"
        if is_ours and present["spec"] != wanted["spec"]:
            await registry.update(INTERNAL, resource, present | {"spec": wanted["spec"]})
    except (AlreadyExists, Conflict, NotFound):  # somebody else was faster; their change is looked at, too
        return


async def _tell(registry: Registry, fairness: Fairness, schema: Obj) -> None:
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    new = _dangling(level, is_found=fairness.has_level(level))
    status = schema.setdefault("status", {})
    old = conditions.find(status.get("conditions"), _DANGLING)
    if old is not None and all(old.get(field) == value for field, value in new.items()):
        return
    status["conditions"] = conditions.with_condition(status.get("conditions"), new, timestamp())
    with suppress(Conflict, NotFound):  # that change is looked at, too
        await registry.update(INTERNAL, FLOW_SCHEMAS, schema, subresource="status")


def _dangling(level: str, *, is_found: bool) -> Obj:
    text = f"This FlowSchema references the PriorityLevelConfiguration object named {go_quote(level)}"
    if is_found:
        return {"type": _DANGLING, "status": "False", "reason": "Found", "message": f"{text} and it exists"}
    return {"type": _DANGLING, "status": "True", "reason": "NotFound", "message": f"{text} but there is no such object"}
