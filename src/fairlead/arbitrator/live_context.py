"""What the arbitrator's listener needs of a real cluster: the review context from informers, and its own user name."""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import Node
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, ListQuery
from fairlead.arbitrator.objects import CONSUMER_GROUPS, CONSUMERS, Consumer, ConsumerGroup
from fairlead.arbitrator.review import ReviewContext
from fairlead.client.informer import Informers

#: How often to look whether our kinds are there yet; the arbitrator installs them.
_LOOK_SECONDS: Final = 0.2


async def review_context(api: Api, informers: Informers) -> ReviewContext:
    """The context for reviews; returns once all informers are synced."""
    for resource in (CONSUMERS, CONSUMER_GROUPS):
        await _served(api, resource)
    nodes, quotas = informers.of(builtin.NODES, Node), informers.of(builtin.RESOURCE_QUOTAS, ResourceQuota)
    consumers, groups = informers.of(CONSUMERS, Consumer), informers.of(CONSUMER_GROUPS, ConsumerGroup)
    by_namespace = quotas.index("namespace", lambda quota: (quota.metadata.namespace,))
    for synced in (nodes.synced, quotas.synced, consumers.synced, groups.synced):
        await synced()
    return ReviewContext(
        nodes=lambda: nodes,
        consumers=lambda: consumers,
        groups=lambda: groups,
        quotas=lambda namespace: by_namespace[namespace],
    )


async def own_name(api: Api) -> str:
    """The user name that the server sees us as; empty if it cannot tell."""
    try:
        review = await api.create(builtin.SELF_SUBJECT_REVIEWS, {"metadata": {}})
    except ApiError:
        return ""
    name: str = review.obj()["status"]["userInfo"]["username"]
    return name


async def _served(api: Api, resource: Resource) -> None:
    while True:
        try:
            await api.list(resource, query=ListQuery(limit=1))
            return
        except NotFound:
            await asyncio.sleep(_LOOK_SECONDS)
