"""Discovery documents (X-01)."""

from __future__ import annotations

import random

import pytest

from fairlead.api.builtin import PODS, RESOURCES
from fairlead.api.resources import Resource
from fairlead.api.versions import by_preference
from fairlead.server.crds.custom import resources_of
from fairlead.server.http import discovery
from tests.server import crd_samples as samples

CUSTOM = resources_of(samples.established(samples.version(subresources={"status": {}, "scale": {
    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}})))  # fmt: skip


def test_groups_stand_in_the_order_of_the_aggregator() -> None:
    names = [group["name"] for group in discovery.group_list([*CUSTOM, *RESOURCES])["groups"]]
    assert names[:4] == ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]
    assert names.index("storage.k8s.io") < names.index("apiextensions.k8s.io") < names.index("scheduling.k8s.io")
    assert names[-1] == "example.com"
    assert "" not in names


def test_the_preferred_version_is_the_newest_stable_one() -> None:
    found = discovery.group(RESOURCES, "autoscaling")
    assert found is not None
    assert [version["version"] for version in found["versions"]] == ["v2", "v1"]
    assert found["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=by_preference) == ordered


def test_subresources_follow_their_resource_and_name_foreign_kinds() -> None:
    found = discovery.resource_list(RESOURCES, "", "v1")
    assert found is not None
    entries = {entry["name"]: entry for entry in found["resources"]}
    names = list(entries)
    assert names[names.index("pods") + 1] == "pods/attach"
    assert entries["pods/eviction"]["group"] == "policy"
    assert "group" not in entries["pods/status"]
    assert "apiVersion" not in found
    assert entries["pods"]["storageVersionHash"] == "xPOwRZ+Yhw8="
    assert "storageVersionHash" not in entries["bindings"]


def test_what_is_not_served_is_not_found() -> None:
    assert discovery.group(RESOURCES, "nope.example.com") is None
    assert discovery.resource_list(RESOURCES, "apps", "v1beta1") is None


@pytest.mark.parametrize("core", [True, False])
def test_the_aggregated_document_says_what_the_single_ones_say(core: bool) -> None:
    rows = [*RESOURCES, *CUSTOM]
    for item in discovery.aggregated(rows, core=core)["items"]:
        group = item["metadata"].get("name", "")
        for version in item["versions"]:
            single = discovery.resource_list(rows, group, version["version"])
            assert single is not None
            names = [
                name
                for entry in version["resources"]
                for name in [entry["resource"]]
                + [f"{entry['resource']}/{sub['subresource']}" for sub in entry.get("subresources", ())]
            ]
            assert names == [entry["name"] for entry in single["resources"]]


def test_only_custom_kinds_spell_out_their_group_in_the_aggregated_document() -> None:
    def kind_of(rows: list[Resource], core: bool) -> object:
        return discovery.aggregated(rows, core=core)["items"][0]["versions"][0]["resources"][0]["responseKind"]

    assert kind_of([PODS], core=True) == {"group": "", "version": "", "kind": "Pod"}
    assert kind_of(CUSTOM, core=False) == {"group": "example.com", "version": "v1", "kind": "Widget"}


def test_a_custom_kind_lists_its_verbs_and_subresources() -> None:
    found = discovery.resource_list(CUSTOM, "example.com", "v1")
    assert found is not None
    assert [entry["name"] for entry in found["resources"]] == ["widgets", "widgets/status", "widgets/scale"]
    assert found["resources"][0]["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
