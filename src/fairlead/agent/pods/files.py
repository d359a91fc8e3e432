"""Files that every container of a pod has from its node: its name, and how names are found.

Source: pkg/kubelet/kubelet_pods.go (managedHostsFileContent), pkg/kubelet/network/dns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
_LONGEST_HOSTNAME: Final = 63
_MACHINE_RESOLV_CONF: Final = Path("/etc/resolv.conf")


def hostname_of(manifest: Obj) -> str:
    """A pod that is called otherwise, or longer than a host name may be, is told so here."""
    spec = manifest["spec"]
    name: str = spec.get("hostname") or manifest["metadata"]["name"]
    return name[:_LONGEST_HOSTNAME].rstrip("-.")


def hosts(manifest: Obj, addresses: Sequence[str], domain: str) -> str:
    spec = manifest["spec"]
    if spec.get("hostNetwork"):
        text = _readable(Path("/etc/hosts"))
    else:
        name = hostname_of(manifest)
        subdomain = spec.get("subdomain")
        full = f"{name}.{subdomain}.{manifest['metadata']['namespace']}.svc.{domain}\t" if subdomain else ""
        text = _HOSTS + "".join(f"{address}\t{full}{name}\n" for address in addresses)
    aliases = [
        f"{alias['ip']}\t{chr(9).join(alias.get('hostnames') or ())}\n" for alias in spec.get("hostAliases") or ()
    ]
    return text + ("\n# Entries added by HostAliases.\n" if aliases else "") + "".join(aliases)


def resolv_conf(manifest: Obj, cluster_dns: Sequence[str], domain: str) -> str:
    """By `dnsPolicy`; a node without a cluster's DNS gives its own, as a kubelet does."""
    spec = manifest["spec"]
    policy, own = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    lines: list[str] = []
    if policy.startswith("ClusterFirst") and cluster_dns:
        namespace = manifest["metadata"]["namespace"]
        lines = [f"nameserver {address}" for address in cluster_dns]
        lines.append(f"search {namespace}.svc.{domain} svc.{domain} {domain}")
        lines.append("options ndots:5")
    elif policy != "None":
        lines = _readable(_MACHINE_RESOLV_CONF).splitlines()
    lines += [f"nameserver {address}" for address in own.get("nameservers") or ()]
    if searches := own.get("searches"):
        lines.append(f"search {' '.join(searches)}")
    for option in own.get("options") or ():
        value = option.get("value")
        lines.append(f"options {option['name']}{f':{value}' if value else ''}")
    return "".join(f"{line}\n" for line in lines)


def system_mounts(
    folder: Path, manifest: Obj, addresses: Sequence[str], dns: Sequence[str], domain: str
) -> list[Mount]:
    """Write them into the folder of the pod, and where they are seen."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "/etc/hosts": hosts(manifest, addresses, domain),
        "/etc/resolv.conf": resolv_conf(manifest, dns, domain),
        "/etc/hostname": f"{hostname_of(manifest)}\n",
    }
    mounts = []
    for target, content in contents.items():
        source = folder / Path(target).name
        source.write_text(content)
        mounts.append(Mount(source, target))
    return mounts


def _readable(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
