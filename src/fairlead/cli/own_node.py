"""`fairlead up --node-runtime`: this machine as a node of its own cluster.

The agent is a process of its own, under an identity of its own: unpacking, mounts and /proc never hold up the API
server, and it can do what a node may and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import click
import msgspec
import yaml
from msgspec.structs import replace

from fairlead.agent.choices import ClusterNetwork, RuntimeKind
from fairlead.agent.network.settings import DNS_ADDRESS
from fairlead.api.builtin import SERVICES
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.users import LOCAL_PATH_USER, NETWORK_USER, User, node_user
from fairlead.api.verbs import Api
from fairlead.cli.failures import Failure, WrongUsage
from fairlead.cli.machine_notes import said_of_machine
from fairlead.cli.node_options import kubelet_configuration, kubelet_flags
from fairlead.cli.node_root import SHOWN_ROOT, default_root
from fairlead.cli.node_user import check_user
from fairlead.client.kubeconfig import Access, load, render
from fairlead.compose import Cluster
from fairlead.runtime.host_address import host_address
from fairlead.runtime.http.listener import bind
from fairlead.server.auth.certificates import write_private

SIMULATED = "sim"
_STOP_SECONDS: Final = 4.0
#: As CoreDNS has it where kubeadm set it up.
_KUBE_DNS: Final[Obj] = {
    "metadata": {
        "name": "kube-dns",
        "labels": {
            "k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS",
        },
    },
    "spec": {
        "clusterIP": str(DNS_ADDRESS),
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ],
    },
}

Command = TypeVar("Command", bound=Callable[..., Any])


class OwnNode(msgspec.Struct, frozen=True):
    runtime: RuntimeKind
    root: Path
    document: Obj
    flags: Sequence[str]
    network: ClusterNetwork


def own_node_options(command: Command) -> Command:
    runtime = click.option(
        "--node-runtime",
        type=click.Choice([SIMULATED, *(kind.value for kind in RuntimeKind)]),
        default=SIMULATED,
        show_default=True,
        help="Simulated nodes; or this machine as one real node: as root with containers under conmon and crun (oci) "
        "or a container runtime such as containerd (cri), without root as processes of this user (process).",
    )
    endpoint = click.option(
        "--container-runtime-endpoint",
        default="",
        metavar="SOCKET",
        help="Where that container runtime listens.  [default: unix:///run/containerd/containerd.sock]",
    )
    root = click.option(
        "--node-root",
        type=click.Path(file_okay=False, path_type=Path),
        default=default_root,
        show_default=SHOWN_ROOT,
        help="Where the real node keeps images, containers, volumes and logs.",
    )
    network = click.option(
        "--cluster-network",
        type=click.Choice([kind.value for kind in ClusterNetwork]),
        default=ClusterNetwork.FAIRLEAD.value,
        show_default=True,
        help="Whose network the pods of the real node get; with none, that of CNI plugins which are installed. Those "
        "of --node-runtime process always have the machine's.",
    )
    return runtime(endpoint(root(network(command))))


def own_node(
    runtime: str, endpoint: str, root: Path, node_config: Sequence[str], cluster_network: str
) -> OwnNode | None:
    """What the options say of the real node; None if there is to be none."""
    if endpoint and runtime != RuntimeKind.CRI:
        raise WrongUsage("--container-runtime-endpoint is for --node-runtime cri")
    if runtime == SIMULATED:
        return None
    check_user(RuntimeKind(runtime), "--node-runtime")
    if len(node_config) > 1:
        raise WrongUsage("--node-config: one file is enough for one real node")
    document = kubelet_configuration(Path(node_config[0])) if node_config else {}
    flags = [*kubelet_flags(), *([f"--container-runtime-endpoint={endpoint}"] if endpoint else [])]
    return OwnNode(
        RuntimeKind(runtime),
        root.absolute(),
        {"failCgroupV1": False, "failSwapOn": False, **document},
        flags,
        ClusterNetwork.NONE if runtime == RuntimeKind.PROCESS else ClusterNetwork(cluster_network),
    )


@asynccontextmanager
async def prepared_agent(node: OwnNode | None) -> AsyncIterator[Process | None]:
    """The process of its agent, which waits to be told what to do, and is gone when the block ends."""
    if node is None:
        yield None
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairlead.cli.prepared"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us; we tell it
    )
    try:
        yield process
    finally:
        await _stop(process)


@asynccontextmanager
async def running_node(
    running: Cluster, node: OwnNode | None, process: Process | None, data_dir: Path | None
) -> AsyncIterator[str]:
    """The node while the block runs, once the cluster knows of it; yields how it is called, or nothing without one."""
    if node is None or process is None:
        yield ""
        return
    with TemporaryDirectory(prefix="fairlead-") as scratch:
        if node.network is ClusterNetwork.FAIRLEAD:
            await serve_names(running.api)
        name = socket.gethostname().lower()
        words = _words(running, node, name, (data_dir or Path(scratch)) / "node")
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(words).encode() + b"\n")
        if not await process.stdout.readline():
            raise Failure(f"the node agent ended with {await process.wait()}; what it said stands above")
        watching = asyncio.create_task(_watch(process, running))
        try:
            yield name + said_of_machine(node.document, has_cgroups=node.runtime is not RuntimeKind.PROCESS)
        finally:
            watching.cancel()
            await _stop(process)  # while there is a cluster to be told


async def serve_names(api: Api) -> None:
    """The Service that programs look for; each node answers at its address itself, so it has no endpoints."""
    try:
        await api.get(SERVICES, _KUBE_DNS["metadata"]["name"], "kube-system")
    except NotFound:  # not simply created: its address, taken by itself, would be refused before its name
        await api.create(SERVICES, _KUBE_DNS, "kube-system")


def _access(running: Cluster, user: User) -> Access:
    """How the cluster is reached by that user, with a new certificate."""
    assert running.authority is not None and running.kubeconfig is not None
    identity = running.authority.identify(user)
    return replace(load(running.kubeconfig), client_certificate=identity.certificate, client_key=identity.key, token="")


def _words(running: Cluster, node: OwnNode, name: str, folder: Path) -> list[str]:
    assert running.authority is not None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kubeconfig, network_kubeconfig = folder / "kubeconfig", folder / "network.kubeconfig"
    storage_kubeconfig = folder / "storage.kubeconfig"
    config = folder / "kubelet.yaml"
    address = host_address()
    shown = running.authority.certify_server(node_user(name), [name, address])
    files = {"tlsCertFile": folder / "kubelet.crt", "tlsPrivateKeyFile": folder / "kubelet.key"}
    for file, content in zip(files.values(), (shown.certificate, shown.key), strict=True):
        write_private(file, content)
    client_ca = folder / "ca.crt"
    client_ca.write_bytes(running.authority.certificate_pem)
    serving: Obj = {setting: str(file) for setting, file in files.items()}
    serving |= {"port": _free_port(address), "authentication": {"x509": {"clientCAFile": str(client_ca)}}}
    write_private(kubeconfig, render(_access(running, node_user(name))).encode())
    write_private(network_kubeconfig, render(_access(running, NETWORK_USER)).encode())
    write_private(storage_kubeconfig, render(_access(running, LOCAL_PATH_USER)).encode())
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    config.write_text(yaml.safe_dump(kind | serving | node.document))
    options = [
        "--kubeconfig",
        str(kubeconfig),
        "--config",
        str(config),
        "--network-kubeconfig",
        str(network_kubeconfig),
        "--storage-kubeconfig",
        str(storage_kubeconfig),
        "--cluster-network",
        node.network,
        "--runtime",
        node.runtime,
        "--root",
        str(node.root),
        "--node-name",
        name,
        "--node-ip",
        address,
    ]
    return ["node", "run", *options, *node.flags]


def _free_port(address: str) -> int:
    """Other nodes may have the usual one."""
    with bind(0, address) as sock:
        return int(sock.getsockname()[1])


async def _watch(process: asyncio.subprocess.Process, running: Cluster) -> None:
    """A cluster whose only node is gone has failed."""
    code = await process.wait()
    if not running.failure.done():
        running.failure.set_exception(Failure(f"the node agent ended with {code}; what it said stands above"))


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Its last words are about containers that run on."""
    if process.returncode is not None:
        return
    process.terminate()
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            said = await process.stdout.read()
            await process.wait()
    except TimeoutError:
        process.kill()
        return
    click.echo(said.decode(), nl=False)
