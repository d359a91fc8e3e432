"""What only a running container could answer: the API server's own objections come first, as with kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.api.objects import Obj
from tests.server.http_world import Server, check_status, serving_in_a_thread

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        for name, node in (("placed", "n1"), ("waits", "")):
            made = server.ask("POST", PODS, _pod(name, node, "a", "b"))
            assert made.code == 201, made.body
        made = server.ask("POST", PODS, _pod("alone", "n1", "a"))
        assert made.code == 201, made.body
        yield server


def _pod(name: str, node: str, *containers: str) -> Obj:
    spec: Obj = {"containers": [{"name": name, "image": "i"} for name in containers]}
    if node:
        spec["nodeName"] = node
    spec["initContainers"] = [{"name": "first", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("asked", ["log", "exec", "attach", "portforward"])
def test_a_pod_that_is_not_there_is_not_found(server: Server, asked: str) -> None:
    reply = server.ask("GET", f"{PODS}/nobody/{asked}")
    assert check_status(reply, 404, "NotFound") == 'pods "nobody" not found'


@pytest.mark.parametrize("asked", ["log", "exec", "attach"])
def test_of_several_containers_one_is_named(server: Server, asked: str) -> None:
    reply = server.ask("GET", f"{PODS}/placed/{asked}")
    text = "a container name must be specified for pod placed, choose one of: [first a b]"
    assert check_status(reply, 400, "BadRequest") == text
    reply = server.ask("GET", f"{PODS}/placed/{asked}?container=zz")
    assert check_status(reply, 400, "BadRequest") == "container zz is not valid for pod placed"


@pytest.mark.parametrize("asked", ["exec?container=a", "attach?container=first", "portforward"])
def test_nothing_runs_in_a_pod_without_a_node(server: Server, asked: str) -> None:
    reply = server.ask("POST", f"{PODS}/waits/{asked}")
    assert check_status(reply, 400, "BadRequest") == "pod waits does not have a host assigned"


def test_a_pod_without_a_node_has_written_nothing_yet(server: Server) -> None:
    reply = server.ask("GET", f"{PODS}/waits/log?container=a")
    assert (reply.code, reply.body, reply.headers["content-type"]) == (200, b"", "text/plain")


@pytest.mark.parametrize(("asked", "about"), [("log", "no logs"), ("exec", "no command"), ("portforward", "no port")])
def test_of_a_simulated_container_the_truth_is_told(server: Server, asked: str, about: str) -> None:
    text = check_status(server.ask("GET", f"{PODS}/alone/{asked}"), 400, "BadRequest")
    assert text.startswith("simulated containers run nothing") and about in text
