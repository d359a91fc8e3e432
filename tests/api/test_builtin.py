"""The table of built-in kinds (X-01)."""

from __future__ import annotations

import pytest

from fairlead.api import builtin
from fairlead.api.resources import Resource
from fairlead.server.codec.schemas import definition, definitions


@pytest.mark.parametrize("row", builtin.RESOURCES, ids=lambda row: f"{row.api_version}/{row.plural}")
def test_a_row_names_a_definition_of_exactly_its_kind(row: Resource) -> None:
    kinds = definition(row.definition)["x-kubernetes-group-version-kind"]
    assert {"group": row.group, "version": row.version, "kind": row.kind} in kinds


def test_no_path_is_taken_twice() -> None:
    paths = [(row.api_version, row.plural) for row in builtin.RESOURCES]
    assert len(set(paths)) == len(paths)


def test_every_kind_of_a_stable_version_is_served() -> None:
    """A kind that a later release of the definitions adds must not be forgotten here."""
    served = {row.definition for row in builtin.RESOURCES}
    subresources = {sub.kind for row in builtin.RESOURCES for sub in row.subresources.values()}
    documents = {"APIGroup", "APIVersions", "Status"}
    missing = [
        name
        for name in definitions()
        for kinds in [definition(name).get("x-kubernetes-group-version-kind") or []]
        if len(kinds) == 1
        and kinds[0]["version"] in ("v1", "v2")
        and not name.endswith("List")
        and name not in served
        and kinds[0]["kind"] not in subresources | documents
    ]
    assert missing == []


def test_a_qualified_name_finds_the_preferred_version() -> None:
    assert builtin.resource("pods") is builtin.PODS
    assert builtin.resource("deployments.apps") is builtin.DEPLOYMENTS
    assert builtin.resource("horizontalpodautoscalers.autoscaling").version == "v2"
    with pytest.raises(KeyError):
        builtin.resource("nopes")


def test_events_of_both_groups_are_one_collection() -> None:
    """X-08."""
    assert builtin.stored_as(builtin.EVENTS_K8S_IO) is builtin.EVENTS
    assert builtin.stored_as(builtin.HORIZONTAL_POD_AUTOSCALERS_V1) is builtin.HORIZONTAL_POD_AUTOSCALERS
    assert builtin.stored_as(builtin.PODS) is builtin.PODS
