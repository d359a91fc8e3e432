"""Large requests, refused or not: what they needed is freed when they end, and not by a full collection much later."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import msgspec
import pytest

from fairlead.api.objects import Obj
from fairlead.runtime.http.protocol import Connection
from tests.server.http_world import Server, serving_in_a_thread

PODS = "/api/v1/namespaces/default/pods"
#: So many that the object is looked at beside the event loop; no other list is as long.
MANY = 21_371


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        running.ask("POST", PODS, pod("there"))
        yield running


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pod(name: str, image: str = "i", tolerations: int = 0) -> Obj:
    tolerated = [{"key": f"key-{number}", "operator": "Exists"} for number in range(tolerations)]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": image}], "tolerations": tolerated},
    }


@pytest.mark.usefixtures("nothing_is_collected")
@pytest.mark.parametrize(
    ("method", "path", "name", "image", "code"),
    [
        ("POST", f"{PODS}?dryRun=All", "new", "i", 201),
        ("POST", PODS, "new", "", 422),
        ("POST", PODS, "there", "i", 409),
        ("PUT", f"{PODS}/there?dryRun=All", "there", "i", 200),
        ("PUT", f"{PODS}/there", "there", "", 422),
    ],
)
def test_an_object_is_freed_with_its_request(
    server: Server, method: str, path: str, name: str, image: str, code: int
) -> None:
    body = msgspec.json.encode(pod(name, image, MANY))
    assert server.ask(method, path, body).code == code
    server.soon(lambda: not any(type(found) is list and len(found) >= MANY for found in gc.get_objects()))


@pytest.mark.usefixtures("nothing_is_collected")
@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/v1/namespaces", b"\r\n0\r\n\r\n"),
        ("/nothing", b"404"),
        ("/api/v1/namespaces?watch=true", b"ADDED"),
    ],
    ids=["whole", "refused", "under way"],
)
def test_a_connection_is_freed_when_it_ends(server: Server, path: str, answer: bytes) -> None:
    """Each had referred to itself: with TLS, 50 KB until the next full collection."""
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode())
            client.settimeout(10)
            seen = client.recv(1 << 16)
            while answer not in seen and b"content-length" not in seen.lower():
                seen += client.recv(1 << 16)
    server.soon(lambda: not any(type(found) is Connection for found in gc.get_objects()))
