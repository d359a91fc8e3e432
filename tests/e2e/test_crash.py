"""`fairlead up` may die at any moment and loses nothing that it had acknowledged; and it stops when told to."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairlead.client.kubeconfig import Access, load
from fairlead.client.tls import tls_of
from tests.examples import each_time
from tests.processes import Up, fairlead_up

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
API = ("--components", "api")
CONNECTIONS = 8


class Client:
    """One connection with the credentials of a kubeconfig."""

    def __init__(self, access: Access) -> None:
        server = urlsplit(access.server)
        self._connection = HTTPSConnection(server.hostname or "", server.port, context=tls_of(access), timeout=20)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        response = self.open(path, method, body)
        return response.status, json.loads(response.read())

    def open(self, path: str, method: str = "GET", body: Any = None) -> HTTPResponse:
        """The answer, not read yet."""
        headers = {"content-type": "application/json"}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()


class Writer(threading.Thread):
    """Creates, changes and deletes objects one after the other until the server is gone; remembers what it was told."""

    def __init__(self, access: Access, name: str) -> None:
        super().__init__()
        self._client, self._prefix = Client(access), name
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()

    def run(self) -> None:
        number = 0
        while True:
            name = f"{self._prefix}-{number}"
            try:
                self._write(name, number)
            except (OSError, HTTPException, ValueError):
                self.doubtful.add(name)  # it may have happened or not
                return
            number += 1

    def _write(self, name: str, number: int) -> None:
        obj = {"metadata": {"name": name}, "data": {"payload": "x" * (number * 37 % 3000)}}
        code, made = self._client.ask("POST", CONFIG_MAPS, obj)
        assert code == 201, made
        self.acknowledged[name] = made
        if number % 3 == 1:
            code, made = self._client.ask("PUT", f"{CONFIG_MAPS}/{name}", made | {"data": {"changed": "yes"}})
            assert code == 200, made
            self.acknowledged[name] = made
        if number % 5 == 4:
            assert self._client.ask("DELETE", f"{CONFIG_MAPS}/{name}")[0] == 200
            del self.acknowledged[name]
            self.deleted.add(name)


def writers_until_killed(up: Up, count: int) -> list[Writer]:
    """Let several connections write; kill the server once so many writes are acknowledged."""
    writers = [Writer(load(up.kubeconfig), f"w{number}") for number in range(CONNECTIONS)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 20
    while sum(len(writer.acknowledged) for writer in writers) < count:
        assert time.monotonic() < deadline, "the writers came to nothing"
        time.sleep(0.001)
    up.process.send_signal(signal.SIGKILL)
    up.process.wait(5)
    for writer in writers:
        writer.join(20)
        assert not writer.is_alive()
    return writers


def check_history(client: Client, writers: list[Writer], found: dict[str, Any]) -> None:
    """A watch from before the crash goes on: it tells of everything since, and leads to what is there."""
    acknowledged = {name: made for writer in writers for name, made in writer.acknowledged.items()}
    first = min(int(made["metadata"]["resourceVersion"]) for made in acknowledged.values())
    stream = client.open(f"{CONFIG_MAPS}?watch=1&resourceVersion={first}&timeoutSeconds=1").read()
    events = [json.loads(line) for line in stream.splitlines()]
    assert "ERROR" not in {event["type"] for event in events}
    last = {event["object"]["metadata"]["name"]: event for event in events}
    for name, made in acknowledged.items():
        assert name in last or int(made["metadata"]["resourceVersion"]) == first
    for name, event in last.items():
        assert (event["type"] == "DELETED") == (name not in found)
        assert event["type"] == "DELETED" or event["object"]["metadata"] == found[name]["metadata"]


@pytest.mark.parametrize("seed", each_time([1], [1, 2]))
def test_kill_nine_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    with fairlead_up(tmp_path / "data", *API) as up:
        writers = writers_until_killed(up, Random(seed).randrange(50, 600))
    with fairlead_up(tmp_path / "data", *API) as up:
        client = Client(load(up.kubeconfig))
        code, listing = client.ask("GET", CONFIG_MAPS)
        assert code == 200
        found = {one["metadata"]["name"]: one for one in listing["items"]}
        newest = 0
        for writer in writers:
            for name, made in writer.acknowledged.items():
                newest = max(newest, int(made["metadata"]["resourceVersion"]))
                if name not in writer.doubtful:
                    assert found[name] == {key: made[key] for key in made if key not in ("kind", "apiVersion")}
                elif name in found:  # its last change may have got through unacknowledged
                    assert found[name]["metadata"]["uid"] == made["metadata"]["uid"]
            assert not writer.deleted & set(found)
        assert int(listing["metadata"]["resourceVersion"]) >= newest
        check_history(client, writers, found)
        code, made = client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "after"}})
        assert code == 201
        assert int(made["metadata"]["resourceVersion"]) > int(listing["metadata"]["resourceVersion"])
        client.close()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_at_once_whoever_is_connected(tmp_path: Path, signum: int) -> None:
    with fairlead_up(tmp_path / "data") as up:
        idle, watching = Client(load(up.kubeconfig)), Client(load(up.kubeconfig))
        assert idle.ask("GET", CONFIG_MAPS)[0] == 200
        stream = watching.open(f"{CONFIG_MAPS}?watch=1")
        assert stream.status == 200
        up.process.send_signal(signum)
        stream.read()  # it ends as a stream should, and not in the middle of a line
        watching.close()
        assert up.process.wait(5) == 0  # a watch lasts for minutes
        idle.close()
        assert up.process.stdout is not None
        assert up.process.stdout.read().startswith("Stopped.")


#: `fairlead up` with a controller that never ends a turn.
_HELD = """
from fairlead.cli.main import main
from fairlead.controllers.namespace import Namespaces

def hold(self, obj, world):
    while obj.metadata.name == "held":
        pass
    yield from ()

Namespaces.reconcile, Namespaces.concerns = hold, lambda self, old, new, world: True
main()
"""


def test_it_stops_when_told_to_even_if_a_turn_never_ends_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with fairlead_up(data, program=("-c", _HELD), ends_with=128 + signal.SIGTERM) as up:
        client = Client(load(up.kubeconfig))
        assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "held"}})[0] == 201
        client.close()
        log = data.parent / "data.log"
        while "namespace-controller held has been holding the event loop" not in log.read_text():
            time.sleep(0.1)
    with fairlead_up(data, *API) as up:
        client = Client(load(up.kubeconfig))
        assert client.ask("GET", "/api/v1/namespaces/held")[0] == 200
        client.close()


def test_what_lets_the_owner_in_is_readable_by_nobody_else(tmp_path: Path) -> None:
    with fairlead_up(tmp_path / "data", *API) as up:
        secret = [up.kubeconfig, *(up.data_dir / "pki").glob("*.key"), up.data_dir / "pki" / "admin.token"]
        assert len(secret) >= 4
        assert {oct(path.stat().st_mode & 0o777) for path in secret} == {"0o600"}
        assert "plain http" not in up.greeting


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with (
        fairlead_up(tmp_path / "data", *API),
        pytest.raises(AssertionError, match="is in use by another fairlead"),
        fairlead_up(tmp_path / "data", *API),
    ):
        pass


def test_a_data_directory_that_is_taken_away_is_noticed_before_a_write_is_acknowledged(tmp_path: Path) -> None:
    with fairlead_up(tmp_path / "data", *API, ends_with=1) as up:
        client = Client(load(up.kubeconfig))
        assert client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "kept"}})[0] == 201
        shutil.rmtree(up.data_dir)
        code, status = client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "lost"}})
        assert (code, status["reason"]) == (503, "ServiceUnavailable")
        assert "was removed or replaced" in status["message"]
        assert client.ask("GET", f"{CONFIG_MAPS}/lost")[0] == 404
        assert client.ask("GET", f"{CONFIG_MAPS}/kept")[0] == 200  # what is in memory can be saved
        assert "[-]etcd failed" in client.open("/readyz?verbose").read().decode()
        client.close()
        with pytest.raises(AssertionError, match="was removed under another fairlead"):  # noqa: SIM117
            with fairlead_up(tmp_path / "data", *API, ends_with=1):
                pass
    assert "was removed or replaced" in (tmp_path / "data.log").read_text()


def test_the_plain_listener_is_there_only_if_it_is_asked_for(tmp_path: Path) -> None:
    with fairlead_up(tmp_path / "data", *API, "--http-port", "0") as up:
        assert "NO AUTHENTICATION" in up.greeting
        assert "plain http http://127.0.0.1:" in up.greeting
