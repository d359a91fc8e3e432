"""What a kind cannot do is refused by every implementation before anything is looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, RESOURCES
from fairlead.api.errors import BadRequest, MethodNotSupported
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, DeleteOptions
from tests.api_conformance.world import config_map, deployment, pod

COMPONENT_STATUSES, TOKEN_REVIEWS, SUBJECT_REVIEWS = (
    next(row for row in RESOURCES if row.plural == plural)
    for plural in ("componentstatuses", "tokenreviews", "selfsubjectreviews")
)
NAMED: Obj = {"metadata": {"name": "x"}}

CALLS: dict[str, Callable[[Api, str], Awaitable[Any]]] = {
    "get": lambda api, namespace: api.get(TOKEN_REVIEWS, "x"),
    "list": lambda api, namespace: api.list(TOKEN_REVIEWS),
    "watch": lambda api, namespace: anext(aiter(api.watch(TOKEN_REVIEWS))),
    "create": lambda api, namespace: api.create(COMPONENT_STATUSES, dict(NAMED)),
    "update": lambda api, namespace: api.update(TOKEN_REVIEWS, dict(NAMED)),
    "patch": lambda api, namespace: api.patch(TOKEN_REVIEWS, "x", "", {}),
    "delete": lambda api, namespace: api.delete(TOKEN_REVIEWS, "x"),
    "delete_collection": lambda api, namespace: api.delete_collection(NAMESPACES, options=DeleteOptions(dry_run=True)),
    "get binding": lambda api, namespace: api.get(PODS, "x", namespace, "binding"),
    "update eviction": lambda api, namespace: api.update(
        PODS, {"metadata": {"name": "x", "namespace": namespace}}, subresource="eviction"
    ),
    "patch binding": lambda api, namespace: api.patch(PODS, "x", namespace, {}, subresource="binding"),
    "create scale": lambda api, namespace: api.create(
        DEPLOYMENTS, dict(NAMED), namespace, name="x", subresource="scale"
    ),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_verb_that_the_kind_does_not_have_is_not_allowed(api: Api, namespace: str, call: str) -> None:
    await api.create(PODS, pod("x"), namespace)
    await api.create(DEPLOYMENTS, deployment("x"), namespace)
    with pytest.raises(MethodNotSupported) as refused:
        await CALLS[call](api, namespace)
    assert (refused.value.code, refused.value.reason) == (405, "MethodNotAllowed")
    assert refused.value.message == "the server does not allow this method on the requested resource"


async def test_what_is_only_asked_is_answered_and_not_stored(api: Api) -> None:
    review = (await api.create(SUBJECT_REVIEWS, {})).obj()
    assert (review["kind"], review["apiVersion"]) == ("SelfSubjectReview", SUBJECT_REVIEWS.api_version)
    assert review["status"]["userInfo"]["username"]


async def test_what_is_handed_over_as_another_kind_is_refused(api: Api, namespace: str) -> None:
    obj = config_map("c") | {"apiVersion": "v1", "kind": "Secret"}
    with pytest.raises(BadRequest, match='Secret in version "v1" cannot be handled as a ConfigMap'):
        await api.create(CONFIG_MAPS, obj, namespace)
