"""Machines made of network namespaces: nodes on a wire, each with an agent's loop of its own, and clients beside them.

A thread that has entered a namespace stays there, and so does what it starts; a socket belongs to the namespace where
it was made. So a node is a thread, and the parts under test run in it as on a machine of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairlead.api.verbs import WATCH, Api, WatchEvent, WatchQuery

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
PLUGINS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))


def missing() -> str:
    """Why nothing real can be tested here; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("nft", "nftables"), ("ip", "iproute2")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    if not any((folder / "bridge").is_file() for folder in PLUGINS):
        return "no CNI plugins: apt-get install containernetworking-plugins"
    tried = subprocess.run(["ip", "netns", "add", f"fltry{os.getpid()}"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"no network namespaces: {tried.stderr.strip()}"
    command = ["ip", "netns", "exec", f"fltry{os.getpid()}", "nft", "add table ip fairlead"]
    tried = subprocess.run(command, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", f"fltry{os.getpid()}"], check=True)
    return "" if tried.returncode == 0 else f"no nftables in this kernel: {tried.stderr.strip()}"


_missing = missing()
real = pytest.mark.skipif(bool(_missing), reason=f"REAL NETWORK NOT TESTED: {_missing}")


def shell(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Namespace:
    def __init__(self, name: str) -> None:
        self.name = name
        self.path = f"/run/netns/{name}"
        shell(f"ip netns add {name}")
        self.run("ip link set lo up")

    def run(self, command: str) -> str:
        return shell(f"ip netns exec {self.name} {command}")

    def remove(self) -> None:
        shell(f"ip netns del {self.name}")

    def enter(self) -> None:
        """The calling thread enters, for good."""
        with open(self.path) as file:  # noqa: PTH123  (a descriptor is wanted)
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def inside(self, work: Callable[[], T]) -> T:
        """The result of what is done there, in a thread that ends with it."""
        result: Future[T] = Future()

        def body() -> None:
            try:
                self.enter()
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        return result.result()

    def ask(self, address: str, port: int, timeout: float = 2.0, source_port: int = 0) -> str:
        """What a server there answers: its name, and whom it sees."""

        def work() -> str:
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                client.settimeout(timeout)
                client.bind(("", source_port))
                client.connect((address, port))
                return client.makefile().readline().strip()

        return self.inside(work)

    @contextmanager
    def answering(self, port: int, name: str) -> Iterator[None]:
        """A TCP server there, which tells each client its name and the address that it came from."""
        server = self.inside(lambda: socket.create_server(("0.0.0.0", port)))

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, peer = server.accept()
                    with connection:
                        connection.sendall(f"{name} {peer[0]}\n".encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


_wires = itertools.count()


class Wire:
    """Namespaces on one network, 192.168.77.0/24; all are removed in the end."""

    def __init__(self) -> None:
        self._prefix = f"fl{os.getpid()}w{next(_wires)}"
        self._namespaces: list[Namespace] = []
        self._switch = self.namespace("wire")
        self._switch.run("ip link add wire type bridge")
        self._switch.run("ip link set wire up")

    def namespace(self, name: str) -> Namespace:
        made = Namespace(f"{self._prefix}{name}")
        self._namespaces.append(made)
        return made

    def host(self, name: str, number: int) -> Namespace:
        """A machine at 192.168.77.NUMBER; whatever is not on the wire it sends to .254, where nobody is."""
        made = self.namespace(name)
        port = f"port{number}"
        self._switch.run(f"ip link add {port} type veth peer name eth0 netns {made.name}")
        self._switch.run(f"ip link set {port} master wire up")
        made.run(f"ip address add 192.168.77.{number}/24 dev eth0")
        made.run("ip link set eth0 up")
        made.run("ip route add default via 192.168.77.254")
        return made

    def remove(self, namespace: Namespace) -> None:
        self._namespaces.remove(namespace)
        namespace.remove()

    def close(self) -> None:
        for namespace in reversed(self._namespaces):
            namespace.remove()


class Loop:
    """An event loop in a thread of its own, in a namespace or in that of the tests."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        self._namespace = namespace
        self.loop = asyncio.new_event_loop()  # of several uvloops only one can start programs
        self._thread = threading.Thread(target=self._body)
        self._thread.start()

    def _body(self) -> None:
        if self._namespace is not None:
            self._namespace.enter()
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 60.0) -> T:
        return self.start(work).result(timeout)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class ApiElsewhere:
    """An `Api` that lives on another loop."""

    def __init__(self, api: Api, home: Loop) -> None:
        self._api, self._home = api, home
        #: Verb, group and resource of everything so far.
        self.asked: set[tuple[str, str, str]] = set()

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def ask(*arguments: Any, **options: Any) -> Any:
            self.asked.add((verb, arguments[0].group, arguments[0].plural))
            return await asyncio.wrap_future(self._home.start(getattr(self._api, verb)(*arguments, **options)))

        return ask

    async def watch(self, resource: Any, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        async def begin() -> AsyncIterator[WatchEvent]:
            return aiter(self._api.watch(resource, namespace, query))

        async def following(events: AsyncIterator[WatchEvent]) -> WatchEvent | None:
            return await anext(events, None)

        self.asked.add(("watch", resource.group, resource.plural))
        events = await asyncio.wrap_future(self._home.start(begin()))
        while (event := await asyncio.wrap_future(self._home.start(following(events)))) is not None:
            yield event
