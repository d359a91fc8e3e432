"""By which proxy a server is reached: the one that its kubeconfig names, or the environment's, as Go reads that.

Source: golang.org/x/net/http/httpproxy; k8s.io/client-go, tools/clientcmd/client_config.go (`parseProxyURL`).
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from fairlead.client.unreachable import UnusableKubeconfig
from fairlead.golang.quoting import go_quote


def proxy_of(server: str, stated: str) -> str | None:
    """Its URL; None: there is none. `stated` is what the kubeconfig says. UnusableKubeconfig: that cannot be one."""
    if not (proxy := stated or _of_environment(server)):
        return None
    if "://" not in proxy and not stated:
        proxy = f"http://{proxy}"
    if (scheme := urlsplit(proxy).scheme) not in ("http", "https"):
        whose = "proxy-url" if stated else "the proxy of the environment"
        raise UnusableKubeconfig(f"{whose}: unsupported scheme {go_quote(scheme)}, must be http or https")
    return proxy


def _of_environment(server: str) -> str:
    url, proxies = urlsplit(server), getproxies_environment()
    host = url.hostname or ""
    if _is_here(host) or proxy_bypass(url.netloc) or _is_within(host, proxies.get("no", "")):
        return ""
    return proxies.get(url.scheme, "")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _is_within(host: str, networks: str) -> bool:
    """Whether it is an address of one of the networks in a list with commas, which has names as well."""
    with suppress(ValueError):
        address = ip_address(host)
        for each in networks.split(","):
            with suppress(ValueError):
                if address in ip_network(each.strip(), strict=False):
                    return True
    return False
