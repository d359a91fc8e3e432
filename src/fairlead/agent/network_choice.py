"""Which network the pods of this machine get: Fairlead's, that of the cluster's own plugins, or their loopback device.

A machine that lacks what a network takes is still a node: its pods run, those with `hostNetwork` see the world, and
the node's `Ready` condition says what is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from fairlead.agent.choices import ClusterNetwork
from fairlead.agent.network.cni import configuration
from fairlead.agent.network.dns.resolv_conf import Naming
from fairlead.agent.network.pod_network import PodNetwork as OwnNetwork
from fairlead.agent.network.settings import DEFAULT_DOMAIN, NetworkSettings
from fairlead.agent.network_seam import HostNetwork, LoopbackOnly, NetworkOfRuntime, PodNetwork
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.node.configuration.settings import KubeletConfiguration

#: Which network a node has, once its configuration is known.
Networking = Callable[[KubeletConfiguration], PodNetwork]

#: Where the network keeps what it has on the machine, below the folder of the node.
FOLDER: Final = "network"
_PLUGINS: Final = ("bridge", "host-local")
_PROGRAMS: Final = {"nft": "nftables", "ip": "iproute2"}
_PLUGINS_PACKAGE: Final = "containernetworking-plugins"


def loopback_only(why: str) -> Networking:
    return lambda config: LoopbackOnly(_naming(config), why)


def of_the_runtime(config: KubeletConfiguration) -> PodNetwork:
    """The container runtime has one."""
    return NetworkOfRuntime(_naming(config))


def of_the_machine(config: KubeletConfiguration) -> PodNetwork:
    """Nobody may make another."""
    return HostNetwork(_naming(config))


def networking(
    kind: ClusterNetwork, node_name: str, root: Path, api: Api | None, *, is_cri: bool = False
) -> Networking:
    """`api` is in the name of the network (network/permissions.py), which reads what runs on other nodes, too. A
    runtime behind CRI attaches pods itself."""
    if is_cri:
        return _beside_cri(kind, node_name, root, api)
    if kind is ClusterNetwork.NONE:
        conflist = configuration.installed()
        if conflist is None:
            return loopback_only(f"there are no plugins of the cluster in {configuration.INSTALLED}")
        return lambda config: OwnNetwork(_settings(config, node_name, root, conflist), None)
    if api is None:
        return loopback_only("it takes --network-kubeconfig, or the cluster's own with --cluster-network=none")
    if missing := missing_packages():
        return loopback_only(f"apt-get install {' '.join(missing)}")
    return lambda config: OwnNetwork(_settings(config, node_name, root), Informers(api))


def _beside_cri(kind: ClusterNetwork, node_name: str, root: Path, api: Api | None) -> Networking:
    from fairlead.agent.runtimes.cri.network import announce  # gRPC is for those alone who use it

    if kind is ClusterNetwork.NONE:
        return of_the_runtime
    if api is None or (missing := missing_packages()):
        needs = "--network-kubeconfig" if api is None else f"apt-get install {' '.join(missing)}"
        problem = f"pods have the network of the container runtime, without services and policies: that takes {needs}"
        return lambda config: NetworkOfRuntime(_naming(config), [problem])
    folder = root / FOLDER
    return lambda config: OwnNetwork(
        _settings(config, node_name, root),
        Informers(api),
        partial(announce, endpoint=config.container_runtime_endpoint, root=folder),
    )


def missing_packages() -> list[str]:
    """What this machine lacks for a network of ours."""
    missing = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    folders = NetworkSettings(node_name="", root=Path()).plugin_folders
    if not all(any((folder / plugin).is_file() for folder in folders) for plugin in _PLUGINS):
        missing.append(_PLUGINS_PACKAGE)
    return missing


def _settings(
    config: KubeletConfiguration, node_name: str, root: Path, conflist: Path | None = None
) -> NetworkSettings:
    naming = _naming(config)
    return NetworkSettings(
        node_name=node_name,
        root=root / FOLDER,
        cluster_dns=naming.servers,
        cluster_domain=naming.domain,
        host_resolv_conf=naming.host_file,
        conflist=conflist,
    )


def _naming(config: KubeletConfiguration) -> Naming:
    return Naming(config.cluster_dns, config.cluster_domain or DEFAULT_DOMAIN, Path(config.resolv_conf or "/dev/null"))
