"""The clients in Python and JavaScript reach into containers of a real node, each in its own way over WebSocket."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kr8s
import kubernetes
import kubernetes_asyncio
from kr8s.asyncio.objects import Pod
from kubernetes.stream import portforward, stream
from kubernetes_asyncio.stream import WsApiClient

from fairlead.runtime.loops import run
from fairlead.runtime.process_metrics import open_descriptors
from tests.agent.real_node import RealNode, real_node
from tests.javascript import client_modules

SLEEPING = {"name": "main", "command": ["sleep", "infinity"]}


def on_real_node(folder: Path, story: Callable[[RealNode], Awaitable[None]]) -> None:
    async def main() -> None:
        async with real_node(folder) as node:
            await node.start("p", SLEEPING)
            async with asyncio.timeout(60):
                await story(node)

    run(main())


@contextmanager
def few_files_left() -> Iterator[None]:
    """This process has most of the files open that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as files:
        for _ in range(200):
            files.enter_context(Path("/dev/null").open())
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(open_descriptors()) + 100, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that a port leads to."""
    while line := await reader.readline():
        writer.write(line.upper())
    writer.close()


def client(node: RealNode) -> Any:
    return kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(node.kubeconfig)))


def test_kubernetes_runs_commands(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        def use() -> None:
            api = client(node)

            def exec_(script: str, **options: Any) -> Any:
                wanted = {"stdout": True, "stderr": True, "stdin": False, "tty": False} | options
                command = ["sh", "-c", script]
                return stream(api.connect_get_namespaced_pod_exec, "p", "default", command=command, **wanted)

            assert exec_("echo out; echo err >&2") in ("out\nerr\n", "err\nout\n")
            running = exec_("read x; echo got $x; exit 7", stdin=True, _preload_content=False)
            running.write_stdin("something\n")
            running.run_forever(timeout=30)
            assert running.read_stdout() == "got something\n"
            assert running.returncode == 7
            terminal = exec_("test -t 0 && stty size && echo yes", tty=True, stdin=True, _preload_content=False)
            terminal.write_channel(4, json.dumps({"Width": 100, "Height": 40}))
            terminal.run_forever(timeout=30)
            assert terminal.read_stdout().endswith("yes\r\n")

        await asyncio.to_thread(use)

    on_real_node(tmp_path, story)


def test_kubernetes_forwards_ports(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        backend = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]

        def use() -> None:
            forwarded = portforward(
                client(node).connect_get_namespaced_pod_portforward, "p", "default", ports=f"{port},1"
            )
            connection = forwarded.socket(port)
            connection.setblocking(True)
            connection.settimeout(30)
            connection.sendall(b"hello\n")
            assert connection.recv(100) == b"HELLO\n"
            connection.close()
            refused = forwarded.socket(1)
            refused.settimeout(30)
            assert refused.recv(100) == b""
            assert "error forwarding port 1 to pod p, uid" in forwarded.error(1)
            assert forwarded.error(port) is None

        await asyncio.to_thread(use)
        backend.close()

    on_real_node(tmp_path, story)


def test_no_port_is_forwarded_with_the_files_that_a_node_itself_needs(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        backend = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]

        def use() -> str:
            forwarded = portforward(
                client(node).connect_get_namespaced_pod_portforward, "p", "default", ports=str(port)
            )
            connection = forwarded.socket(port)
            connection.settimeout(30)
            assert connection.recv(100) == b""
            return str(forwarded.error(port))

        with few_files_left():
            assert "Too many open files" in await asyncio.to_thread(use)
        backend.close()

    on_real_node(tmp_path, story)


def test_kubernetes_reads_logs(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await node.start("writes", {"name": "main", "command": ["sh", "-c", "echo one; echo two"]})

        def use() -> None:
            api = client(node)
            watched = kubernetes.watch.Watch().stream(api.read_namespaced_pod_log, "writes", "default")
            assert list(watched) == ["one", "two"]
            assert api.read_namespaced_pod_log("writes", "default", tail_lines=1) == "two\n"

        await asyncio.to_thread(use)

    on_real_node(tmp_path, story)


def test_kubernetes_asyncio_runs_commands(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await kubernetes_asyncio.config.load_kube_config(config_file=str(node.kubeconfig))
        async with WsApiClient() as connection:
            api = kubernetes_asyncio.client.CoreV1Api(api_client=connection)
            options = {"stdout": True, "stderr": True, "stdin": False, "tty": False}
            command = ["sh", "-c", "echo out; exit 5"]
            out = await api.connect_get_namespaced_pod_exec("p", "default", command=command, **options)
            assert out == "out\n"
            opening = await api.connect_get_namespaced_pod_exec(
                "p", "default", command=command, **options, _preload_content=False
            )
            async with opening as socket:
                errors = [message.data[1:] async for message in socket if message.data[:1] == b"\x03"]
            assert WsApiClient.parse_error_data(b"".join(errors)) == 5

    on_real_node(tmp_path, story)


def test_kr8s_runs_commands_forwards_ports_and_reads_logs(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await node.start("writes", {"name": "main", "command": ["sh", "-c", "echo one; echo two"]})
        backend = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        api = await kr8s.asyncio.api(kubeconfig=str(node.kubeconfig), namespace="default")
        pod = await Pod.get("p", namespace="default", api=api)
        done = await pod.exec(["sh", "-c", "echo out; exit 6"], check=False)
        assert (done.stdout, done.returncode) == (b"out\n", 6)
        async with pod.portforward(remote_port=port, local_port=0) as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"hello\n")
            assert await reader.readline() == b"HELLO\n"
            writer.close()
        writes = await Pod.get("writes", namespace="default", api=api)
        assert [line async for line in writes.logs(follow=True)] == ["one", "two"]
        backend.close()

    on_real_node(tmp_path, story)


def test_javascript_runs_commands_and_forwards_ports(tmp_path: Path) -> None:
    modules = client_modules()

    async def story(node: RealNode) -> None:
        backend = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        script = modules / "streams.mjs"
        script.write_text(Path(__file__).with_name("client.mjs").read_text())
        done = await node.run("node", script, node.kubeconfig, str(port))
        assert json.loads(done.out) == {
            "failed": ["out\n", "err\n", "Failure", [{"reason": "ExitCode", "message": "3"}]],
            "echoed": ["some input", "", "Success", []],
            "forwarded": "HELLO\n",
        }
        backend.close()

    on_real_node(tmp_path, story)
