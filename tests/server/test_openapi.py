"""OpenAPI documents (X-01)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest

from fairlead.api.builtin import RESOURCES
from fairlead.api.errors import NotAcceptable
from fairlead.api.objects import Obj
from fairlead.kinds.strategy import Strategy
from fairlead.server import openapi
from fairlead.server.codec import protobuf
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.crds.custom import custom_kind
from fairlead.server.openapi import gnostic
from fairlead.server.openapi.documents import Kinds
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.catalogue import Catalogue, Served
from tests.server import crd_samples as samples


def catalogue(*crds: Obj) -> Catalogue:
    found = Catalogue()
    for row in RESOURCES:
        if row.plural != "events" or not row.group:
            version = ServedVersion(row, normalise=lambda obj: [])
            found.add(Served(row, Strategy(), Cache(row.qualified), {row.api_version: version}))
    for crd in crds:
        kind = custom_kind(crd)
        found.add(Served(kind.resource, kind.strategy, Cache(kind.resource.qualified), kind.versions, crd))
    return found


def kinds_with(*crds: Obj) -> Kinds:
    return Kinds.of(catalogue(*crds))


BUILT_IN = Kinds.of(catalogue())


def document(path: str, kinds: Kinds = BUILT_IN) -> Any:
    found = openapi.document(kinds, tuple(path.split("/")), ["application/json"])
    assert found is not None
    body, media_type = found
    assert media_type == "application/json"
    return msgspec.json.decode(body)


def schema(path: str, name: str) -> Any:
    return document(path)["components"]["schemas"][name]


def test_the_index_leads_to_every_group_version() -> None:
    paths = document("v3")["paths"]
    assert {"api", "apis", "version", "api/v1", "apis/apps", "apis/apps/v1"} <= set(paths)
    for path in paths:
        assert document(f"v3/{path}")["openapi"] == "3.0.0"


def test_a_hash_changes_with_the_schema_behind_it() -> None:
    def hash_of(crd: Obj) -> str:
        url: str = document("v3", kinds_with(crd))["paths"]["apis/example.com/v1"]["serverRelativeURL"]
        return url

    before, after = (
        samples.established(),
        samples.established(samples.version(schema=samples.spec_of(a={"type": "string"}))),
    )
    assert hash_of(before) == hash_of(samples.established())
    assert hash_of(before) != hash_of(after)


def test_required_values_have_the_defaults_that_go_writes() -> None:
    port = schema("v3/api/v1", "io.k8s.api.core.v1.ContainerPort")["properties"]
    assert port["containerPort"]["default"] == 0
    assert port["protocol"] == {
        "description": port["protocol"]["description"],
        "type": "string",
        "default": "TCP",
        "enum": ["SCTP", "TCP", "UDP"],
    }
    assert "default" not in port["hostPort"]


def test_v3_wraps_references_that_say_more_and_v2_does_not() -> None:
    ref = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    v3 = schema("v3/api/v1", "io.k8s.api.core.v1.Pod")["properties"]["metadata"]
    assert v3["allOf"] == [{"$ref": f"#/components/schemas/{ref}"}]
    assert v3["default"] == {}
    v2 = document("v2")["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["metadata"]
    assert v2["$ref"] == f"#/definitions/{ref}"
    assert "default" not in v2


def test_every_reference_of_a_document_is_in_it() -> None:
    for path in ("api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"):
        found = document(f"v3/{path}")
        prefix = "#/components/schemas/"
        missing = {ref.removeprefix(prefix) for ref in _references(found)} - set(found["components"]["schemas"])
        assert missing == set()


def test_a_patch_of_a_built_in_kind_takes_strategic_merges_and_validates_fields() -> None:
    """kubectl looks at both before it applies (X-02, X-05)."""
    patch = document("v3/apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}


def test_operations_are_named_as_generated_clients_know_them() -> None:
    paths = document("v3/api/v1")["paths"]
    assert paths["/api/v1/namespaces/{namespace}/pods"]["get"]["operationId"] == "listCoreV1NamespacedPod"
    assert paths["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"
    binding = paths["/api/v1/namespaces/{namespace}/pods/{name}/binding"]["post"]
    assert binding["operationId"] == "createCoreV1NamespacedPodBinding"


def test_a_custom_kind_appears_with_its_schema() -> None:
    found = document("v3/apis/example.com/v1", kinds_with(samples.established()))
    kind = found["components"]["schemas"]["com.example.v1.Widget"]
    assert kind["properties"]["spec"]["properties"]["size"]["default"] == 3
    assert set(kind["properties"]) == {"spec", "status", "apiVersion", "kind", "metadata"}
    patch = found["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_v2_says_nothing_of_a_kind_that_keeps_unknown_fields() -> None:
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}
    found = document("v2", kinds_with(samples.established(samples.version(schema=keeps))))
    assert "properties" not in found["definitions"]["com.example.v1.Widget"]


V2_SCHEMAS: list[tuple[Obj, Obj]] = [
    (
        {"type": "string", "pattern": "^a", "maxLength": 3, "enum": ["a", "ab"], "format": "date", "default": "a"},
        {"type": "string", "pattern": "^a", "maxLength": 3, "enum": ["a", "ab"], "format": "date"},
    ),
    ({"type": "integer", "minimum": 1, "not": {"enum": [7]}}, {"type": "integer", "minimum": 1}),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "object", "properties": {"a": {}}},
    ),
    (
        {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}},
        {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}},
    ),
    (
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "additionalProperties": {}},
    ),
    ({"type": "array", "nullable": True, "items": {"type": "string"}, "maxItems": 3}, {"maxItems": 3}),
    (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True},
    ),
]


@pytest.mark.parametrize(("schema", "shown"), V2_SCHEMAS, ids=str)
def test_v2_shows_of_a_schema_what_it_has_words_for(schema: Obj, shown: Obj) -> None:
    crd = samples.established(samples.version(schema={"type": "object", "properties": {"value": schema}}))
    kind = document("v2", kinds_with(crd))["definitions"]["com.example.v1.Widget"]
    assert kind["properties"]["value"] == shown


def fields(message: bytes, number: int) -> list[bytes]:
    """The contents of the fields of that number in a protobuf message."""
    return [raw for found, _, raw in protobuf._fields(message) if found == number and isinstance(raw, bytes)]


def named(message: bytes, number: int) -> dict[str, bytes]:
    """A map of gnostic's: entries with a name and a value."""
    return {fields(message_, 1)[0].decode(): fields(message_, 2)[0] for message_ in fields(message, number)}


def test_v2_as_protobuf_says_what_it_says_as_json() -> None:
    found = openapi.document(BUILT_IN, ("v2",), ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf"])
    assert found is not None and found[1] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    (paths,), (types,) = fields(found[0], 8), fields(found[0], 9)
    json = document("v2")
    assert set(named(paths, 2)) == set(json["paths"])
    assert set(named(types, 1)) == set(json["definitions"])
    pod = named(types, 1)["io.k8s.api.core.v1.Pod"]
    assert fields(pod, 4) == [json["definitions"]["io.k8s.api.core.v1.Pod"]["description"].encode()]
    (properties,) = fields(pod, 25)
    assert fields(named(properties, 1)["spec"], 1) == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    kinds = msgspec.json.decode(fields(named(pod, 31)["x-kubernetes-group-version-kind"], 2)[0])
    assert kinds == [{"group": "", "kind": "Pod", "version": "v1"}]
    patch = fields(named(paths, 2)["/api/v1/namespaces/{namespace}/pods/{name}"], 8)[0]
    query = [
        fields(fields(fields(parameter, 1)[0], 2)[0], 3)[0]
        for parameter in fields(patch, 8)
        if fields(fields(parameter, 1)[0], 2)
    ]
    assert b"fieldValidation" in [fields(parameter, 4)[0] for parameter in query], (
        "by which kubectl knows that the server validates"
    )


def test_a_client_that_takes_none_of_the_forms_is_refused() -> None:
    with pytest.raises(NotAcceptable):
        openapi.document(BUILT_IN, ("v2",), ["text/html"])
    with pytest.raises(NotAcceptable):
        openapi.document(BUILT_IN, ("v3",), [gnostic.MEDIA_TYPE])
    assert openapi.document(BUILT_IN, ("v3", "apis", "nope.example.com", "v1"), ["*/*"]) is None


def test_every_parameter_is_described() -> None:
    for path, item in document("v2")["paths"].items():
        operations = [operation.get("parameters", ()) for key, operation in item.items() if key != "parameters"]
        for parameter in chain(item.get("parameters", ()), *operations):
            assert parameter["in"] == "body" or parameter["description"], (path, parameter["name"])


def test_what_selects_and_what_watches_is_described_as_kubectls_own_tests_look_for_it() -> None:
    parameters = document("v2")["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"]["parameters"]
    told = {parameter["name"]: parameter["description"] for parameter in parameters}
    assert "list of returned" in told["labelSelector"]
    assert "Watch for changes to the described resources" in told["watch"]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
