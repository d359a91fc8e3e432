"""resolv.conf of a pod by its policy, as a kubelet writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.network.dns.resolv_conf import DnsConfig, DnsOption, Naming, of_pod, parsed

HOST = parsed("nameserver 192.168.1.1\nsearch old\ndomain lan\noptions timeout:1 rotate\nsortlist 1\n")
CLUSTER = "shop.svc.cluster.local svc.cluster.local cluster.local lan"


def written(policy: str, config: DnsConfig | None = None, *, host_network: bool = False) -> str:
    found = of_pod(
        policy,
        config,
        namespace="shop",
        host_network=host_network,
        cluster_dns=("10.0.0.10",),
        cluster_domain="cluster.local",
        host=HOST,
    )
    return str(found)


@pytest.mark.parametrize(
    ("policy", "host_network", "expected"),
    [
        ("ClusterFirst", False, f"search {CLUSTER}\nnameserver 10.0.0.10\noptions ndots:5\n"),
        ("ClusterFirstWithHostNet", True, f"search {CLUSTER}\nnameserver 10.0.0.10\noptions ndots:5\n"),
        ("ClusterFirst", True, "search lan\nnameserver 192.168.1.1\noptions timeout:1 rotate\n"),
        ("Default", False, "search lan\nnameserver 192.168.1.1\noptions timeout:1 rotate\n"),
        ("None", False, ""),
    ],
)
def test_policies(policy: str, host_network: bool, expected: str) -> None:
    assert written(policy, host_network=host_network) == expected


def test_what_the_pod_says_comes_after_and_replaces_options() -> None:
    options = (DnsOption(name="ndots", value="1"), DnsOption(name="edns0"))
    config = DnsConfig(nameservers=("9.9.9.9", "10.0.0.10"), searches=("mine", "lan"), options=options)
    assert written("ClusterFirst", config) == (
        f"search {CLUSTER} mine\nnameserver 10.0.0.10\nnameserver 9.9.9.9\noptions ndots:1 edns0\n"
    )


def test_limits_of_resolvers_hold() -> None:
    config = DnsConfig(
        nameservers=tuple(f"9.9.9.{n}" for n in range(5)), searches=tuple("x" * 99 + str(n) for n in range(40))
    )
    lines = written("None", config).splitlines()
    assert sum(line.startswith("nameserver") for line in lines) == 3
    assert len(lines[0].removeprefix("search ")) <= 2048


def test_the_file_of_the_machine_may_have_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_bytes(b"# of Z\xfcrich, in Latin-1\nnameserver 192.168.1.1\n")
    found = Naming((), "cluster.local", file).resolv_conf("Default", None, namespace="shop", host_network=False)
    assert found == "nameserver 192.168.1.1\n"
