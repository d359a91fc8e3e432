"""The doors of `fairlead up`: what may come in, and that they stay open."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from fairlead.client.kubeconfig import load
from fairlead.client.tls import tls_of
from tests.examples import each_time
from tests.processes import Up, fairlead_up

API = ("--components", "api")
#: Where Python takes text for ASCII, and standard input and error are closed: that changes nothing.
BARE = ("env", "LC_ALL=POSIX", "PYTHONCOERCECLOCALE=0", "PYTHONUTF8=0", "sh", "-c", 'exec "$@" <&- 2>&-', "sh")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with fairlead_up(tmp_path_factory.mktemp("front") / "data", *API, within=BARE, ends_with=0) as running:
        yield running


def tls(up: Up) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=(load(up.kubeconfig).ca or b"").decode())


def port_of(up: Up) -> int:
    return int(load(up.kubeconfig).server.rpartition(":")[2])


def ask(up: Up, path: str) -> bytes:
    access = load(up.kubeconfig)
    with urlopen(access.server + path, timeout=60, context=tls_of(access)) as answer:
        body: bytes = answer.read()
        return body


def test_the_process_says_that_it_is_ready(up: Up) -> None:
    assert b"[+]informer-sync ok\n" in ask(up, "/readyz?verbose")


@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"])
def test_suites_that_do_not_authenticate_are_refused(up: Up, suite: str) -> None:
    context = tls(up)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    for ciphers, is_taken in (("ECDHE-ECDSA-AES128-GCM-SHA256", True), (f"{suite}:@SECLEVEL=0", False)):
        context.set_ciphers(ciphers)
        expected = contextlib.nullcontext() if is_taken else pytest.raises((ssl.SSLError, ConnectionError))
        with socket.create_connection(("127.0.0.1", port_of(up))) as sock, expected:
            context.wrap_socket(sock, server_hostname="127.0.0.1").close()


def test_a_server_without_descriptors_says_so_and_recovers(tmp_path: Path) -> None:
    """Half handshakes, more than the process can have connections, that are never completed."""
    with fairlead_up(tmp_path / "data", *API) as up:
        resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", port_of(up))))
            assert ask(up, "/livez") == b"ok"
        assert ask(up, "/livez") == b"ok"
        log = (tmp_path / "data.log").read_text()
        assert log.count("no more connections can be taken") == 1
        assert "`ulimit -n`" in log


@pytest.mark.parametrize("content", each_time([""], ["", "\n"]))
def test_an_empty_token_is_replaced(tmp_path: Path, content: str) -> None:
    with fairlead_up(tmp_path / "data", *API):
        pass
    (tmp_path / "data" / "pki" / "admin.token").write_text(content)
    with fairlead_up(tmp_path / "data", *API) as up:
        assert ask(up, "/livez") == b"ok"
        for shown in ("Bearer ", "Bearer", f"Bearer {content!r}"):
            request = f"GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: {shown}\r\n\r\n"
            with (
                socket.create_connection(("127.0.0.1", port_of(up))) as sock,
                tls(up).wrap_socket(sock, server_hostname="127.0.0.1") as secured,
            ):
                secured.sendall(request.encode())
                assert secured.recv(12) == b"HTTP/1.1 401"
    assert "held no token" in (tmp_path / "data.log").read_text()


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lock").symlink_to(elsewhere)
    with pytest.raises(AssertionError, match="lock: is a symbolic link"), fairlead_up(tmp_path / "data", *API):
        pass
    assert not elsewhere.exists()
