"""Whatever a client sends: a `Status` with the right code, no trace of it in the store, no bug in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.http_world import (
    CONFIG_MAPS,
    JSON,
    Reply,
    Server,
    check_status,
    serving_in_a_thread,
    uncomplaining,
)
from tests.server.test_custom_kinds import WIDGETS

PODS = "/api/v1/namespaces/default/pods"
YAML = {"content-type": "application/yaml"}
PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        for name in ("kept", "other"):
            assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "v"}}).code == 201
        pod = {"metadata": {"name": "kept"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert server.ask("POST", PODS, pod).code == 201
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server, which must not complain in its log."""
    with uncomplaining():
        yield running


@pytest.fixture
def unchanged(server: Server) -> Iterator[Server]:
    """The server, in which the test must change nothing."""
    before = server.registry.revision
    yield server
    assert server.registry.revision == before


NESTED = 5000
BAD_BODIES = {
    "nothing": b"",
    "white space": b" \n",
    "half an object": b'{"metadata":{"name":"x"',
    "two objects": b'{"metadata":{"name":"x"}} {"metadata":{"name":"y"}}',
    "a trailing comma": b'{"metadata":{"name":"x"},}',
    "single quotes": b"{'metadata':{'name':'x'}}",
    "NaN": b'{"metadata":{"name":"x"},"data":NaN}',
    "a control character in a string": b'{"metadata":{"name":"a\x00b"}}',
    "a byte order mark": b'\xef\xbb\xbf{"metadata":{"name":"x"}}',
    "UTF-16": '{"metadata":{"name":"x"}}'.encode("utf-16"),
    "a list": b"[]",
    "a number": b"3",
    "a string": b'"x"',
    "true": b"true",
    "deep lists": b"[" * NESTED + b"]" * NESTED,
    "deep objects": b'{"a":' * NESTED + b"1" + b"}" * NESTED,
    "deep and never closed": b"[" * 100_000,
    "a deep field": b'{"metadata":{"name":"x"},"data":' + b"[" * NESTED + b"]" * NESTED + b"}",
    "metadata of another type": b'{"metadata":3}',
    "a name of another type": b'{"metadata":{"name":["x"]}}',
    "labels of another type": b'{"metadata":{"name":"x","labels":{"a":{}}}}',
    "a time that is none": b'{"metadata":{"name":"x","creationTimestamp":"soon"}}',
    "a number where a string must be": b'{"metadata":{"name":"x"},"data":{"k":3}}',
    "base64 that is none": b'{"metadata":{"name":"x"},"binaryData":{"k":"***"}}',
    "a kind of another type": b'{"kind":3,"metadata":{"name":"x"}}',
    "another kind": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}',
    "an unknown kind": b'{"kind":"Nonsense","apiVersion":"v1","metadata":{"name":"x"}}',
    "another version": b'{"kind":"ConfigMap","apiVersion":"v7","metadata":{"name":"x"}}',
    "a strange version": b'{"kind":"ConfigMap","apiVersion":"a/b/c","metadata":{"name":"x"}}',
    "another namespace": b'{"metadata":{"name":"x","namespace":"kube-system"}}',
    "HTML": b"<html></html>",
    "zeros": b"\0" * 100,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_no_such_object_is_a_bad_request(unchanged: Server, body: bytes) -> None:
    check_status(unchanged.ask("POST", CONFIG_MAPS, body), 400, "BadRequest")


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
@pytest.mark.parametrize(
    "headers", [YAML, PROTOBUF, MERGE, JSON_PATCH, STRATEGIC], ids=lambda headers: headers["content-type"]
)
def test_bad_bodies_of_other_types_are_refused_too(unchanged: Server, headers: dict[str, str], body: bytes) -> None:
    """Some of them are good YAML; what matters is that they are judged, in the client's terms."""
    is_patch = "patch" in headers["content-type"]
    method, path = ("PATCH", f"{CONFIG_MAPS}/kept") if is_patch else ("POST", f"{CONFIG_MAPS}?dryRun=All")
    reply = unchanged.ask(method, f"{path}?dryRun=All" if is_patch else path, body, headers)
    assert reply.code in (200, 201) or check_any_status(reply)


def check_any_status(reply: Reply) -> bool:
    """A refusal in the client's terms, and no bug of ours."""
    assert 400 <= reply.code < 500, reply.body
    return bool(check_status(reply, reply.code, reply.obj["reason"]))


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "a: b: c",
        "a: &x [*x]",
        "\t- x",
        "!!python/object/apply:os.system ['true']",
        "? [a]\n: b",
        "\0",
        "[" * NESTED,
        "metadata: *nowhere",
        "- " * NESTED,
    ],
)
def test_bad_yaml_is_a_bad_request(unchanged: Server, body: str) -> None:
    check_status(unchanged.ask("POST", CONFIG_MAPS, body.encode(), YAML), 400, "BadRequest")


def test_of_several_yaml_documents_the_first_one_counts(unchanged: Server) -> None:
    body = b"metadata: {name: x}\n---\nmetadata: {name: y}\n--- {"
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", body, YAML)
    assert (reply.code, reply.obj["metadata"]["name"]) == (201, "x")


def test_a_yaml_bomb_does_not_explode(unchanged: Server) -> None:
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    reply = unchanged.ask("POST", CONFIG_MAPS, "\n".join(levels).encode(), YAML)
    assert reply.code >= 400
    assert len(reply.body) < 1 << 20


def test_a_patch_cannot_make_an_object_explode(unchanged: Server) -> None:
    """Each copy doubles what is copied; kube-apiserver bounds the copied bytes."""
    grow = [{"op": "add", "path": "/data/a", "value": "x" * 1000}]
    for _ in range(30):
        grow += [
            {"op": "copy", "from": "/data", "path": "/data/b"},
            {"op": "move", "from": "/data/b", "path": "/data/c"},
        ]
    reply = unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept", grow, JSON_PATCH)
    assert 400 <= reply.code < 500
    assert len(reply.body) < 4 << 20


def test_an_object_that_grows_deeper_with_every_patch_is_refused_at_some_point(widgets: Server) -> None:
    server = widgets
    deep = WIDGET | {"metadata": {"name": "deep"}, "a": {}}
    assert server.ask("POST", WIDGET_PATHS, deep).code == 201
    path, reply = "", server.ask("GET", f"{WIDGET_PATHS}/deep")
    while reply.code == 200:
        before = reply.body
        steps = [{"op": "add", "path": (path := f"{path}/a"), "value": {}} for _ in range(100)]
        reply = server.ask("PATCH", f"{WIDGET_PATHS}/deep", steps, JSON_PATCH)
    check_status(reply, 400, "BadRequest")
    assert server.ask("GET", f"{WIDGET_PATHS}/deep").body == before


def test_a_patch_of_very_many_operations_is_too_large(unchanged: Server) -> None:
    operations = [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001
    check_status(unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept", operations, JSON_PATCH), 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", CONFIG_MAPS, "text/plain"),
        ("POST", CONFIG_MAPS, "application/x-www-form-urlencoded"),
        ("POST", CONFIG_MAPS, "application/json-patch+json"),
        ("POST", CONFIG_MAPS, "nonsense"),
        ("PUT", f"{CONFIG_MAPS}/kept", "text/html; charset=utf-8"),
        ("PATCH", f"{CONFIG_MAPS}/kept", "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/kept", ""),
        ("DELETE", f"{CONFIG_MAPS}/kept", "text/plain"),
    ],
)
def test_a_content_type_that_nobody_reads_is_a_415(
    unchanged: Server, method: str, path: str, content_type: str
) -> None:
    reply = unchanged.ask(method, path, b'{"metadata":{"name":"x"}}', {"content-type": content_type})
    check_status(reply, 415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "image/png",
        "application/xml",
        "application/*",
        "application/json;as=Nonsense;g=x;v=y",
        "application/json;g=meta.k8s.io;v=v1",
        "application/json;stream=other",
        "application/json;sv=v2",
    ],
)
def test_an_answer_that_nobody_can_make_is_a_406(unchanged: Server, accept: str) -> None:
    check_status(unchanged.ask("GET", CONFIG_MAPS, headers={"accept": accept}), 406, "NotAcceptable")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/yaml;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json;q=0.5, application/yaml", "application/yaml"),
        ("application/json;q=half, application/yaml;q=0.1", "application/yaml"),
        ("*/*, application/yaml;q=0.1", "application/yaml"),  # what is named comes first
        ("application/yaml, application/json", "application/yaml"),
        ("application/*, application/yaml", "application/yaml"),
        ("application/json;stream=other, application/yaml;sv=v1", "application/yaml"),
    ],
)
def test_what_is_wanted_most_is_given(unchanged: Server, accept: str, form: str) -> None:
    reply = unchanged.ask("GET", CONFIG_MAPS, headers={"accept": accept})
    assert (reply.code, reply.headers["content-type"]) == (200, form)


@pytest.mark.parametrize(
    ("timeout", "why"),
    [
        ("abc", 'time: invalid duration "abc"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("999999999h", 'time: invalid duration "999999999h"'),
        ("1h2", 'time: missing unit in duration "1h2"'),
    ],
)
def test_a_time_that_is_none_is_told_why(unchanged: Server, timeout: str, why: str) -> None:
    reply = unchanged.ask("GET", f"{CONFIG_MAPS}?timeout={timeout}")
    assert check_status(reply, 400, "BadRequest") == f"invalid timeout specified in the request URL - {why}"
    assert unchanged.ask("GET", f"{CONFIG_MAPS}?timeout={timeout}&watch=1&timeoutSeconds=1").code == 200


@pytest.mark.parametrize("timeout", ["", "0", "30s", "1m30s", "1.5h", "-.5s", "%2B100ms"])
def test_a_time_is_taken(unchanged: Server, timeout: str) -> None:
    assert unchanged.ask("GET", f"{CONFIG_MAPS}?timeout={timeout}").code == 200


@pytest.mark.parametrize(("query", "code"), [("export=1", 400), ("export=", 400), ("export=false", 404)])
def test_nothing_is_exported_any_more(unchanged: Server, query: str, code: int) -> None:
    reply = unchanged.ask("GET", f"{CONFIG_MAPS}/none?{query}")
    assert reply.code == code
    if code == 400:
        assert reply.obj["message"] == "the export parameter, deprecated since v1.14, is no longer supported"


def test_a_patch_of_no_known_kind_is_no_patch_in_whatever_form_it_is_to_be_answered(unchanged: Server) -> None:
    headers = {"content-type": "application/json", "accept": "image/png"}
    check_status(unchanged.ask("PATCH", f"{CONFIG_MAPS}/none", b"{}", headers), 415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "accept",
    ["application/json;q=0.5, */*", ";;;", ", ,", "application/json;as", "*/*;=,=;=", "application/json;as=Table"],
)
def test_odd_accept_headers_get_an_answer(unchanged: Server, accept: str) -> None:
    assert unchanged.ask("GET", CONFIG_MAPS, headers={"accept": accept}).code in (200, 406)


@pytest.mark.parametrize(
    "body", [b"{bad", b"[]", b'{"kind":"Pod","apiVersion":"v1"}', b'{"gracePeriodSeconds":"x"}'], ids=str
)
@pytest.mark.parametrize("path", [f"{CONFIG_MAPS}/kept", CONFIG_MAPS])
def test_options_of_a_delete_that_cannot_be_read_are_a_bad_request(unchanged: Server, path: str, body: bytes) -> None:
    check_status(unchanged.ask("DELETE", path, body), 400, "BadRequest")


@pytest.mark.parametrize("content_type", ["application/strategic-merge-patch+yaml", "application/apply-patch+json"])
def test_a_patch_has_one_spelling(unchanged: Server, content_type: str) -> None:
    path = f"{CONFIG_MAPS}/kept?fieldManager=m"
    reply = unchanged.ask("PATCH", path, {"data": {"k": "w"}}, {"content-type": content_type})
    assert check_status(reply, 415, "UnsupportedMediaType") == "415: Unsupported Media Type"


# -- custom resources: upstream no router stands before them

WIDGET_PATHS = "/apis/example.com/v1/namespaces/default/widgets"
WIDGET: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
_SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"}}


@pytest.fixture(scope="module")
def widgets(running: Server) -> Server:
    """The server, with a custom kind that has both subresources, and one object of it."""
    spec = WIDGETS["spec"] | {"versions": [WIDGETS["spec"]["versions"][0] | {"subresources": _SUBRESOURCES}]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"} | WIDGETS
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert running.ask("POST", path, definition | {"spec": spec}).code == 201
    running.soon(lambda: running.ask("GET", WIDGET_PATHS).code == 200)
    assert running.ask("POST", WIDGET_PATHS, WIDGET).code == 201
    return running


@pytest.mark.parametrize("query", ["", "?watch=1"])
def test_a_custom_resource_in_a_form_that_nobody_makes_is_a_406(widgets: Server, query: str) -> None:
    reply = widgets.ask("GET", f"{WIDGET_PATHS}{query}", headers={"accept": "image/png"})
    message = check_status(reply, 406, "NotAcceptable")
    assert "details" not in reply.obj
    assert message == (
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize("query", ["", "?watch=1&timeoutSeconds=1"])
def test_a_custom_resource_has_no_router_that_would_refuse_a_family_of_forms(widgets: Server, query: str) -> None:
    reply = widgets.ask("GET", f"{WIDGET_PATHS}{query}", headers={"accept": "application/*"})
    assert (reply.code, reply.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("content_type", ["application/json", "application/strategic-merge-patch+json", ""])
def test_a_custom_resource_tells_which_patches_it_takes(widgets: Server, content_type: str) -> None:
    for path in (f"{WIDGET_PATHS}/w", WIDGET_PATHS):
        reply = widgets.ask("PATCH", path, {}, {"content-type": content_type})
        assert check_status(reply, 415, "UnsupportedMediaType") == (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )


def test_the_name_in_the_path_of_a_creation_means_nothing(widgets: Server) -> None:
    made = widgets.ask("POST", f"{WIDGET_PATHS}/any", WIDGET | {"metadata": {"name": "other"}})
    assert (made.code, made.obj["metadata"]["name"]) == (201, "other")
    assert widgets.ask("GET", f"{WIDGET_PATHS}/any").code == 404
    check_status(widgets.ask("POST", f"{CONFIG_MAPS}/any", {}), 405, "MethodNotAllowed")


@pytest.mark.parametrize("subresource", ["status", "scale"])
@pytest.mark.parametrize(("method", "verb"), [("POST", "create"), ("DELETE", "delete")])
def test_a_custom_resource_tells_what_its_subresources_cannot(
    widgets: Server, subresource: str, method: str, verb: str
) -> None:
    reply = widgets.ask(method, f"{WIDGET_PATHS}/w/{subresource}", {})
    message = check_status(reply, 405, "MethodNotAllowed")
    assert message == f'{verb} is not supported on resources of kind "widgets.example.com"'
    assert reply.obj["details"] == {"group": "example.com", "kind": "widgets"}


@pytest.mark.parametrize(("method", "headers"), [("PUT", JSON), ("PATCH", MERGE)])
def test_all_custom_resources_cannot_be_written_at_once(widgets: Server, method: str, headers: dict[str, str]) -> None:
    reply = widgets.ask(method, WIDGET_PATHS, WIDGET, headers)
    assert check_status(reply, 400, "BadRequest") == "name must be provided"


def test_metadata_of_a_custom_resource_is_refused_as_that_of_any_other(widgets: Server) -> None:
    reply = widgets.ask("POST", WIDGET_PATHS, WIDGET | {"metadata": {"name": "x", "labels": {"a": 1}}})
    assert check_status(reply, 400, "BadRequest") == (
        'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field '
        "ObjectMeta.labels of type string"
    )


def test_a_custom_resource_is_no_list(widgets: Server) -> None:
    headers = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    message = check_status(widgets.ask("GET", WIDGET_PATHS, headers=headers), 406, "NotAcceptable")
    assert message.endswith("the requested object is a list (*unstructured.UnstructuredList)")
    headers = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    assert check_status(widgets.ask("GET", f"{WIDGET_PATHS}/w", headers=headers), 500, "") == "content is not a list"


# -- queries

HUGE = "9" * 25


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
        ("labelSelector=a+in+b", 400, "BadRequest"),
        ("labelSelector=a+in+(", 400, "BadRequest"),
        ("labelSelector=%00", 400, "BadRequest"),
        ("labelSelector=-a-", 400, "BadRequest"),
        ("labelSelector=a%3D" + "b" * 64, 400, "BadRequest"),
        ("labelSelector=,", 400, "BadRequest"),
        ("fieldSelector=a", 400, "BadRequest"),
        ("fieldSelector=spec.nonsense%3Dx", 400, "BadRequest"),
        ("fieldSelector=%3D", 400, "BadRequest"),
        ("fieldSelector=metadata.name%3Da%5C", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
        ("limit=1_0", 400, "BadRequest"),
        ("limit=1.5", 400, "BadRequest"),
        (f"limit={HUGE}", 400, "BadRequest"),
        ("limit=" + "9" * 5000, 400, "BadRequest"),
        ("limit=", 400, "BadRequest"),
        ("timeoutSeconds=soon", 400, "BadRequest"),
        (f"timeoutSeconds=-{HUGE}", 400, "BadRequest"),
        ("continue=nonsense", 400, "BadRequest"),
        ("resourceVersion=x", 400, "BadRequest"),
        (f"resourceVersion={HUGE}", 400, "BadRequest"),
        ("resourceVersion=-1", 400, "BadRequest"),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422, "Invalid"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
    ],
)
@pytest.mark.parametrize("watch", ["", "&watch=1"])
def test_a_list_or_watch_with_options_that_make_no_sense_is_refused(
    unchanged: Server, query: str, code: int, reason: str, watch: str
) -> None:
    if watch and query.startswith("continue"):
        code, reason = 422, "Invalid"  # a watch has no pages
    if watch and query.startswith("resourceVersion=") and "Match" not in query:
        code, reason = 500, ""  # one of Kubernetes' own
    check_status(unchanged.ask("GET", f"{CONFIG_MAPS}?{query}{watch}"), code, reason)


_MATCH = "resourceVersionMatch: "
_NO_MATCH_WITH_TOKEN = f"{_MATCH}Forbidden: resourceVersionMatch is forbidden when continue is provided"
_NEWER = 'Unsupported value: "Exact": supported values: "NotOlderThan"'


@pytest.mark.parametrize(
    ("query", "problems"),
    [
        (
            "resourceVersion=1&resourceVersionMatch=Foo",
            f'{_MATCH}Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            "resourceVersion=x&resourceVersionMatch=Exact&sendInitialEvents=1",  # before the version is looked at
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&resourceVersion=1&resourceVersionMatch=Exact",
            f"[{_MATCH}Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided, "
            f"{_MATCH}{_NEWER}]",
        ),
        ("watch=1&continue=x", _NO_MATCH_WITH_TOKEN),
        ("watch=1&continue=x&resourceVersion=0", _NO_MATCH_WITH_TOKEN),
    ],
)
def test_contradictory_options_of_a_list_or_watch_are_all_told(unchanged: Server, query: str, problems: str) -> None:
    message = check_status(unchanged.ask("GET", f"{CONFIG_MAPS}?{query}"), 422, "Invalid")
    assert message == f'ListOptions.meta.k8s.io "" is invalid: {problems}'


def test_a_list_of_a_version_that_is_none_is_told_so(unchanged: Server) -> None:
    message = check_status(unchanged.ask("GET", f"{CONFIG_MAPS}?resourceVersion=abc"), 400, "BadRequest")
    assert message == (
        'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": '
        "invalid syntax"
    )


def test_the_options_of_a_write_are_judged_in_the_order_of_kubernetes(unchanged: Server) -> None:
    query = f"dryRun=Some&fieldValidation=foo&force=1&fieldManager={'x' * 129}"
    reply = unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept?{query}", {}, MERGE)
    message = check_status(reply, 422, "Invalid")
    assert [cause["field"] for cause in reply.obj["details"]["causes"]] == [
        "force",
        "fieldManager",
        "dryRun",
        "fieldValidation",
    ]
    assert 'Unsupported value: "foo": supported values: "", "Ignore", "Strict", "Warn"' in message


def test_the_options_of_a_delete_are_judged_in_the_order_of_kubernetes(unchanged: Server) -> None:
    options = {"dryRun": ["Some"], "propagationPolicy": "Sideways", "orphanDependents": True}
    reply = unchanged.ask("DELETE", f"{CONFIG_MAPS}/kept", options)
    message = check_status(reply, 422, "Invalid")
    fields = [cause["field"] for cause in reply.obj["details"]["causes"]]
    assert fields == ["propagationPolicy", "propagationPolicy", "dryRun"]
    assert "cannot be both set" in message
    assert 'Unsupported value: "Sideways"' in message


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=0", "limit=9223372036854775807", "nonsense=1", "labelSelector=", "limit=1&limit=x"]
)
def test_a_list_with_options_that_say_little_is_the_list(unchanged: Server, query: str) -> None:
    assert unchanged.ask("GET", f"{CONFIG_MAPS}?{query}").code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", f"{CONFIG_MAPS}?dryRun=Maybe", {"metadata": {"name": "x"}}, 422),
        ("POST", f"{CONFIG_MAPS}?dryRun=", {"metadata": {"name": "x"}}, 422),
        ("DELETE", f"{CONFIG_MAPS}/kept?dryRun=", None, 422),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=Maybe", {"metadata": {"name": "x"}}, 422),
        ("POST", f"{CONFIG_MAPS}?fieldManager={'x' * 129}", {"metadata": {"name": "x"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "Not A Name"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "a/b"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "x" * 254}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "x", "labels": {"-": "x"}}}, 422),
        ("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "x"}}, 404),
        ("POST", "/api/v1/namespaces/%2e%2e/configmaps", {"metadata": {"name": "x"}}, 404),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "other"}}, 400),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "kept", "resourceVersion": "1"}}, 409),
        ("PUT", f"{CONFIG_MAPS}/nobody", {"metadata": {"name": "nobody"}}, 404),
        ("DELETE", f"{CONFIG_MAPS}/kept", {"preconditions": {"uid": "x"}}, 409),
        ("DELETE", f"{CONFIG_MAPS}/kept", {"propagationPolicy": "Sideways"}, 422),
        ("DELETE", f"{CONFIG_MAPS}/kept?gracePeriodSeconds=soon", None, 400),
        ("DELETE", f"{CONFIG_MAPS}/kept?gracePeriodSeconds={HUGE}", None, 400),
        ("DELETE", f"{CONFIG_MAPS}/nobody", None, 404),
        ("DELETE", f"{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db", None, 400),
        ("POST", f"{PODS}/nobody/eviction", {"metadata": {"name": "nobody"}}, 404),
        ("POST", f"{PODS}/kept/binding", {"metadata": {"name": "kept"}}, 500),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {}}, 400),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "kept", "namespace": "kube-system"}}, 400),
        ("GET", f"{CONFIG_MAPS}/%ff%fe", None, 404),
        ("GET", f"{CONFIG_MAPS}/" + "x" * 8000, None, 404),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused_with_its_reason(
    unchanged: Server, method: str, path: str, body: Any, code: int
) -> None:
    reply = unchanged.ask(method, path, body)
    check_status(reply, code, reply.obj.get("reason", ""))
    assert code < 500 or "reason" not in reply.obj  # one of Kubernetes' own


@pytest.mark.parametrize(
    ("patch", "headers", "code"),
    [
        ([{"op": "fly", "path": "/data"}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/data/nothing"}], JSON_PATCH, 422),
        ([{"op": "add", "path": "data", "value": 1}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "/metadata/name", "value": "x"}], JSON_PATCH, 400),
        ([{"op": "replace", "path": "", "value": 3}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "", "value": None}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/metadata"}], JSON_PATCH, 400),
        ([{"op": "copy", "from": "/nothing", "path": "/data/x"}], JSON_PATCH, None),
        ([{"op": "add", "path": "/data/~2", "value": "x"}], JSON_PATCH, None),
        ({"op": "add"}, JSON_PATCH, 400),
        ([3], JSON_PATCH, 400),
        ({"metadata": 3}, MERGE, 422),
        ({"metadata": None}, MERGE, None),
        ({"data": {"k": {"deep": []}}}, MERGE, 422),
        ({"metadata": {"resourceVersion": "1"}}, MERGE, 409),
        ({"metadata": {"resourceVersion": "x"}}, MERGE, 500),
        ({"metadata": {"name": "other"}}, MERGE, 400),
        ({"metadata": {"name": None}}, MERGE, 400),
        ({"metadata": {"namespace": "kube-system"}}, MERGE, 400),
        ({"metadata": {"namespace": None}}, MERGE, None),
        ({"metadata": {"uid": "x"}}, MERGE, None),
        ({"metadata": {"finalizers": [{"$patch": "delete"}]}}, STRATEGIC, None),
        ({"$patch": "explode"}, STRATEGIC, None),
        ({"metadata": {"ownerReferences": [{}]}}, STRATEGIC, None),
        ({"$retainKeys": 3}, STRATEGIC, None),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": 3}}, STRATEGIC, None),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused(
    server: Server, patch: Any, headers: dict[str, str], code: int | None
) -> None:
    reply = server.ask("PATCH", f"{CONFIG_MAPS}/kept?dryRun=All", patch, headers)
    if code is None:
        assert reply.code < 500 or "reason" not in reply.obj
    else:
        check_status(reply, code, reply.obj.get("reason", ""))


@pytest.mark.parametrize("headers", [JSON_PATCH, MERGE, STRATEGIC], ids=lambda headers: headers["content-type"])
def test_a_broken_patch_of_nothing_finds_nothing(unchanged: Server, headers: dict[str, str]) -> None:
    check_status(unchanged.ask("PATCH", f"{CONFIG_MAPS}/nobody", b"{", headers), 404, "NotFound")
    check_status(unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept", b"{", headers), 400, "BadRequest")


def test_a_broken_apply_is_refused_whether_there_is_an_object_or_not(unchanged: Server) -> None:
    for name in ("kept", "nobody"):
        path = f"{CONFIG_MAPS}/{name}?fieldManager=m"
        message = check_status(unchanged.ask("PATCH", path, b"a: [", APPLY), 400, "BadRequest")
        assert message.startswith("error decoding YAML: error converting YAML to JSON: yaml: ")
    check_status(unchanged.ask("PATCH", f"{PODS}/nobody/status?fieldManager=m", b"a: [", APPLY), 404, "NotFound")


# -- strictness

_TWICE_JSON = b'{"metadata":{"labels":{"a":"1","a":"2"}}}'
_TWICE_OPS = b'[{"op":"add","path":"/data/a","path":"/data/b","value":"v"}]'
_TWICE_YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata:\n  a: '1'\n  a: '2'\n  a: '3'\n"
_YAML_LINES = ['line 6: key "a" already set in map', 'line 7: key "a" already set in map']


@pytest.mark.parametrize(
    ("body", "headers", "warnings", "refusal"),
    [
        (
            _TWICE_JSON,
            MERGE,
            ['duplicate field "metadata.labels.a"'],
            'strict decoding error: duplicate field "metadata.labels.a"',
        ),
        (
            _TWICE_JSON,
            STRATEGIC,
            ['duplicate field "metadata.labels.a"'],
            ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[a:2]]]": strict decoding error: '
            'duplicate field "metadata.labels.a"',
        ),
        (
            _TWICE_OPS,
            JSON_PATCH,
            ['json patch duplicate field "[0].path"'],
            'strict decoding error: json patch duplicate field "[0].path"',
        ),
        (
            _TWICE_YAML,
            APPLY,
            _YAML_LINES,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            + "\n".join(f"  {line}" for line in _YAML_LINES),
        ),
    ],
    ids=["merge", "strategic", "json", "apply"],
)
def test_a_key_that_comes_twice_in_a_patch_is_judged_as_asked(
    unchanged: Server, body: bytes, headers: dict[str, str], warnings: list[str], refusal: str
) -> None:
    path = f"{CONFIG_MAPS}/kept?dryRun=All" + ("&fieldManager=m&force=1" if headers is APPLY else "")
    reply = unchanged.ask("PATCH", path, body, headers)
    assert reply.code == 200, reply.body
    assert reply.warnings == warning_headers(warnings)
    assert unchanged.ask("PATCH", f"{path}&fieldValidation=Ignore", body, headers).warnings == []
    reply = unchanged.ask("PATCH", f"{path}&fieldValidation=Strict", body, headers)
    code, reason = (400, "BadRequest") if headers is APPLY else (422, "Invalid")
    assert check_status(reply, code, reason).endswith(refusal)


def test_keys_that_come_twice_in_yaml_are_warned_of_one_by_one(unchanged: Server) -> None:
    body = _TWICE_YAML.replace(b"kept", b"new")
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", body, YAML)
    assert (reply.code, reply.warnings) == (201, warning_headers(_YAML_LINES))
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All&fieldValidation=Strict", body, YAML)
    assert 'strict decoding error: yaml: unmarshal errors:\n  line 6: key "a"' in check_status(reply, 400, "BadRequest")


def warning_headers(warnings: list[str]) -> list[str]:
    """The headers that carry these warnings."""
    return ['299 - "{}"'.format(warning.replace('"', r"\"")) for warning in warnings]


@pytest.mark.parametrize(
    ("validation", "code", "warned"),
    [("Strict", 400, False), ("Warn", 201, True), ("", 201, True), ("Ignore", 201, False)],
)
@pytest.mark.parametrize(
    ("body", "headers", "problem"),
    [
        (b'{"metadata":{"name":"s"},"data":{},"data":{"k":"v"}}', JSON, 'duplicate field "data"'),
        (b'{"metadata":{"name":"s"},"nonsense":1}', JSON, 'unknown field "nonsense"'),
        (b"metadata: {name: s}\nnonsense: 1\n", YAML, 'unknown field "nonsense"'),
    ],
)
def test_what_a_body_holds_too_much_is_judged_as_asked(
    unchanged: Server, body: bytes, headers: dict[str, str], problem: str, validation: str, code: int, warned: bool
) -> None:
    """X-02."""
    option = f"&fieldValidation={validation}" if validation else ""
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All{option}", body, headers)
    if code == 400:
        assert f"strict decoding error: {problem}" in check_status(reply, 400, "BadRequest")
    else:
        assert reply.code == code
    assert any(problem.replace('"', '\\"') in warning for warning in reply.warnings) is warned


def test_broken_utf8_becomes_the_replacement_character_as_in_go(unchanged: Server) -> None:
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", b'{"metadata":{"name":"s"},"data":{"k":"a\xff\xedb"}}')
    assert reply.code == 201
    assert reply.obj["data"]["k"] == "a��b"
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", b'{"metadata":{"name":"s"},"data":{"k":"\\ud800"}}')
    assert reply.obj["data"]["k"] == "�"


def test_an_object_that_is_read_back_is_what_was_written_whatever_is_in_its_strings(server: Server) -> None:
    strange = '\u0000\u007f\u2028\U0001f600"\\/<>&é'
    made = server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "strange"}, "data": {"k": strange}})
    assert made.code == 201
    assert server.ask("GET", f"{CONFIG_MAPS}/strange").obj["data"]["k"] == strange
    assert server.ask("DELETE", f"{CONFIG_MAPS}/strange").code == 200
