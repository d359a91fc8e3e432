"""What /etc/resolv.conf of a pod says, by its dnsPolicy and dnsConfig, within the limits of resolvers.

Short names find services because of the search list: `web` is looked for in the pod's namespace, `web.shop` in another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.api.meta import View

#: Validation lets no more through; the list of this machine may still be too long.
MOST_SERVERS: Final = 3
MOST_SEARCHES: Final = 32
LONGEST_SEARCH: Final = 2048
_CLUSTER_OPTIONS: Final = ("ndots:5",)


class DnsOption(View):
    name: str = ""
    value: str | None = None


class DnsConfig(View):
    """`spec.dnsConfig` of a pod."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[DnsOption, ...] = ()


class ResolvConf(msgspec.Struct, frozen=True):
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [("search", *self.searches), *(("nameserver", server) for server in self.servers)]
        lines.append(("options", *self.options))
        return "".join(f"{' '.join(words)}\n" for words in lines if len(words) > 1)


def parsed(text: str) -> ResolvConf:
    """That of this machine. The last search line counts, as for resolvers."""
    servers: list[str] = []
    searches: Sequence[str] = ()
    options: list[str] = []
    for line in text.splitlines():
        keyword, *words = line.split() or [""]
        if keyword == "nameserver" and words:
            servers.append(words[0])
        elif keyword in ("search", "domain"):
            searches = [word.rstrip(".") or "." for word in words]
        elif keyword == "options":
            options += words
    return ResolvConf(tuple(servers), tuple(searches), tuple(options))


def of_pod(
    policy: str,
    config: DnsConfig | None,
    *,
    namespace: str,
    host_network: bool,
    cluster_dns: Sequence[str],
    cluster_domain: str,
    host: ResolvConf,
) -> ResolvConf:
    """`policy` is the pod's dnsPolicy; `ClusterFirst` means the machine's for a pod in the network of the machine, and
    where nobody resolves names of the cluster."""
    if policy == "None":
        base = ResolvConf()
    elif policy == "Default" or (policy == "ClusterFirst" and host_network) or not cluster_dns:
        base = host
    else:
        own = (f"{namespace}.svc.{cluster_domain}", f"svc.{cluster_domain}", cluster_domain)
        base = ResolvConf(tuple(cluster_dns), (*own, *host.searches), _CLUSTER_OPTIONS)
    return _within_limits(base if config is None else _extended(base, config))


class Naming(msgspec.Struct, frozen=True):
    """How the pods of a node find names: who resolves those of the cluster, and the file of the machine for others."""

    servers: tuple[str, ...]
    domain: str
    host_file: Path

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        text = ""
        with suppress(OSError):
            text = os.fsdecode(self.host_file.read_bytes())
        found = of_pod(
            policy,
            config,
            namespace=namespace,
            host_network=host_network,
            cluster_dns=self.servers,
            cluster_domain=self.domain,
            host=parsed(text),
        )
        return str(found)


def _extended(base: ResolvConf, config: DnsConfig) -> ResolvConf:
    """What the pod says comes after; an option that it names replaces one of that name."""
    options = dict(_named(base.options))
    options |= {option.name: f":{option.value}" if option.value else "" for option in config.options}
    return ResolvConf(
        tuple(dict.fromkeys((*base.servers, *config.nameservers))),
        tuple(dict.fromkeys((*base.searches, *config.searches))),
        tuple(f"{name}{value}" for name, value in options.items()),
    )


def _named(options: Iterable[str]) -> Iterable[tuple[str, str]]:
    for option in options:
        name, colon, value = option.partition(":")
        yield name, f"{colon}{value}"


def _within_limits(conf: ResolvConf) -> ResolvConf:
    searches = list(conf.searches[:MOST_SEARCHES])
    while len(" ".join(searches)) > LONGEST_SEARCH:
        searches.pop()
    return ResolvConf(conf.servers[:MOST_SERVERS], tuple(searches), conf.options)
