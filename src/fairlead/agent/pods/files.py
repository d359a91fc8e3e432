"""Files that every container of a pod has from its node: its name, and how names are found.

Source: pkg/kubelet/kubelet_pods.go (managedHostsFileContent), pkg/kubelet/network/dns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.network.dns.resolv_conf import DnsConfig
from fairlead.agent.network_seam import PodNetwork
from fairlead.agent.runtimes.base import Mount
from fairlead.api.objects import Obj

_HOSTS: Final = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
#: Before the machine's own, for a pod that has its network.
_HOSTS_OF_MACHINE: Final = "# Kubernetes-managed hosts file (host network).\n"
_LONGEST_HOSTNAME: Final = 63
#: What the kernel takes.
_LONGEST_FULL_NAME: Final = 64


class NoHostname(Exception):
    """Why a pod cannot be called as it asks for."""


def hostname_of(manifest: Obj) -> str:
    """A pod that is called otherwise, or longer than a host name may be, is told so here."""
    spec = manifest["spec"]
    if override := spec.get("hostnameOverride"):
        return str(override)
    name: str = spec.get("hostname") or manifest["metadata"]["name"]
    return name[:_LONGEST_HOSTNAME].rstrip("-.")


def kernel_hostname(manifest: Obj, domain: str) -> str:
    """What the kernel calls it: its full name, if it asks for that and has one."""
    full = _full_name(manifest, domain)
    if not manifest["spec"].get("setHostnameAsFQDN") or not full:
        return hostname_of(manifest)
    if len(full) > _LONGEST_FULL_NAME:
        raise NoHostname(
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {full} is too long"
            f" ({_LONGEST_FULL_NAME} characters is the max, {len(full)} characters requested)"
        )
    return full


def _full_name(manifest: Obj, domain: str) -> str:
    """Empty for a pod that has none."""
    spec = manifest["spec"]
    if spec.get("hostnameOverride") or not spec.get("subdomain"):
        return ""
    return f"{hostname_of(manifest)}.{spec['subdomain']}.{manifest['metadata']['namespace']}.svc.{domain}"


def hosts(manifest: Obj, addresses: Sequence[str], domain: str) -> str:
    spec = manifest["spec"]
    if spec.get("hostNetwork"):
        text = _HOSTS_OF_MACHINE + _readable(Path("/etc/hosts"))
    else:
        names = "\t".join(filter(None, (_full_name(manifest, domain), hostname_of(manifest))))
        text = _HOSTS + "".join(f"{address}\t{names}\n" for address in addresses)
    aliases = [
        f"{alias['ip']}\t{chr(9).join(alias.get('hostnames') or ())}\n" for alias in spec.get("hostAliases") or ()
    ]
    return text + ("\n# Entries added by HostAliases.\n" if aliases else "") + "".join(aliases)


def system_mounts(
    folder: Path, manifest: Obj, addresses: Sequence[str], domain: str, network: PodNetwork
) -> list[Mount]:
    """Write them into the folder of the pod, and where they are seen."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "/etc/hosts": hosts(manifest, addresses, domain),
        "/etc/resolv.conf": _resolv_conf(manifest, network),
        "/etc/hostname": f"{kernel_hostname(manifest, domain)}\n",
    }
    mounts = []
    for target, content in contents.items():
        source = folder / Path(target).name
        source.write_bytes(os.fsencode(content))
        mounts.append(Mount(source, target))
    return mounts


def _resolv_conf(manifest: Obj, network: PodNetwork) -> str:
    spec = manifest["spec"]
    config = msgspec.convert(spec["dnsConfig"], DnsConfig) if spec.get("dnsConfig") else None
    return network.resolv_conf(
        spec.get("dnsPolicy") or "ClusterFirst",
        config,
        namespace=manifest["metadata"]["namespace"],
        host_network=bool(spec.get("hostNetwork")),
    )


def _readable(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
