"""Reads of a cluster what a study needs of it, and nothing else: no Secrets, no values of variables, no commands.

What pods use (now, by metrics.k8s.io; or for a while, by Prometheus) becomes annotations of theirs that simulated nodes
understand. Reading goes page by page, so that a large cluster is asked gently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from fairlead.api import builtin
from fairlead.api.errors import ApiError, Forbidden, NotFound
from fairlead.api.metrics import POD_METRICS
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, ListQuery
from fairlead.arbitrator.objects import CONSUMER_GROUPS, CONSUMERS, POLICIES
from fairlead.sim.behaviour import PREFIX
from fairlead.study.past.events import REASONS
from fairlead.study.prometheus import Usage

PAGE: Final = 500
#: The kinds that are read, in the order in which a dump shows them.
KINDS: Final[tuple[Resource, ...]] = (
    builtin.NAMESPACES,
    builtin.NODES,
    builtin.PRIORITY_CLASSES,
    builtin.RUNTIME_CLASSES,
    builtin.STORAGE_CLASSES,
    builtin.CSI_DRIVERS,
    builtin.CSI_NODES,
    builtin.VOLUME_ATTACHMENTS,
    builtin.RESOURCE_QUOTAS,
    builtin.LIMIT_RANGES,
    builtin.SERVICE_ACCOUNTS,
    builtin.POD_DISRUPTION_BUDGETS,
    builtin.PERSISTENT_VOLUMES,
    builtin.PERSISTENT_VOLUME_CLAIMS,
    builtin.DEPLOYMENTS,
    builtin.REPLICA_SETS,
    builtin.REPLICATION_CONTROLLERS,
    builtin.STATEFUL_SETS,
    builtin.DAEMON_SETS,
    builtin.CONTROLLER_REVISIONS,
    builtin.JOBS,
    builtin.CRON_JOBS,
    builtin.HORIZONTAL_POD_AUTOSCALERS,
    builtin.PODS,
    builtin.EVENTS,
    CONSUMER_GROUPS,
    CONSUMERS,
    POLICIES,
)
#: The annotation that repeats what kubectl applied: a change that applies less takes the rest away.
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_PRIVATE: Final = ("command", "args")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


async def captured(
    api: Api, on_skipped: Callable[[Resource, str], None], usage: Usage | None = None
) -> AsyncIterator[Obj]:
    """Every object, ready to be written. `on_skipped` is told of kinds that may not be read, or are not served.

    `usage` is what somebody else knows of what pods use; None: the cluster is asked.
    """
    if usage is None:
        usage = await _usage(api, on_skipped)
    for kind in KINDS:
        try:
            async for obj in _listed(api, kind):
                if kind is not builtin.EVENTS or obj.get("reason") in REASONS:
                    yield _slim(obj, kind, usage)
        except NotFound:
            on_skipped(kind, "is not served")
        except Forbidden as error:
            on_skipped(kind, str(error))


async def _listed(api: Api, kind: Resource) -> AsyncIterator[Obj]:
    token = ""
    while True:
        page = await api.list(kind, "", ListQuery(limit=PAGE, continue_token=token))
        for item in page.items:
            yield item.obj()
        if not (token := page.continue_token):
            return


async def _usage(api: Api, on_skipped: Callable[[Resource, str], None]) -> Usage:
    """As metrics.k8s.io has it."""
    found: Usage = {}
    try:
        async for obj in _listed(api, POD_METRICS):
            found[f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"] = {
                f"{container['name']}.{PREFIX}usage-{measure}": amount
                for container in obj.get("containers") or ()
                for measure in ("cpu", "memory")
                if (amount := (container.get("usage") or {}).get(measure))
            }
    except ApiError as error:
        on_skipped(POD_METRICS, f"what pods use is not known: {error}")
        return {}
    return found


def _slim(obj: Obj, kind: Resource, usage: Usage) -> Obj:
    meta = obj["metadata"]
    meta.pop("managedFields", None)
    annotations = dict(meta.get("annotations") or {})
    if _APPLIED in annotations:
        annotations |= _applied(annotations.pop(_APPLIED))
    if kind is builtin.PODS:
        annotations |= usage.get(f"{meta.get('namespace')}/{meta['name']}", {})
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    _hide(obj)
    return {"apiVersion": kind.api_version, "kind": kind.kind} | obj


def _applied(text: str) -> dict[str, str]:
    """The annotation without what might be private; nothing of what is no configuration."""
    try:
        configuration = msgspec.json.decode(text)
        _hide(configuration)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {_APPLIED: msgspec.json.encode(configuration).decode()}


def _hide(value: Any) -> None:
    """Take out of every pod, template and revision alike what might be private: they stay equal to each other."""
    if isinstance(value, list):
        for item in value:
            _hide(item)
    elif isinstance(value, dict):
        for name in _CONTAINERS:
            for container in value.get(name) or ():
                if isinstance(container, dict):
                    _hide_container(container)
        for inner in value.values():
            _hide(inner)


def _hide_container(container: Obj) -> None:
    for name in _PRIVATE:
        container.pop(name, None)
    env = [variable for variable in container.get("env") or () if "valueFrom" in variable]
    if env:
        container["env"] = env
    else:
        container.pop("env", None)
