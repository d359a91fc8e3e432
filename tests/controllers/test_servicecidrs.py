"""Further networks for Services: ServiceCIDRs of users (issue 16, KEP-1880)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from fairlead.api.errors import ApiError, InternalError, Invalid
from fairlead.api.objects import Obj
from fairlead.controllers.servicecidrs import ServiceCIDRs
from tests.controllers import cluster as clusters
from tests.controllers.cluster import Cluster

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
#: Longer than a deletion waits.
GRACE = 11


def run(test: Callable[[Cluster], Awaitable[None]]) -> None:
    """With what the server does by itself, which is to show the addresses."""

    async def steps(cluster: Cluster) -> None:
        running = asyncio.create_task(cluster.server.run())
        await test(cluster)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    clusters.run(steps, ServiceCIDRs)


async def network(cluster: Cluster, name: str, *cidrs: str) -> None:
    await cluster.create(SERVICE_CIDRS, {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}})
    await asyncio.sleep(1)


async def service(cluster: Cluster, name: str, **spec: Any) -> str:
    made = await cluster.create(SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]} | spec})
    found: str = made["spec"]["clusterIP"]
    return found


async def refusal(made: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await made
    return caught.value


async def ready(cluster: Cluster, name: str) -> Obj | None:
    """What is said of it; None if it has gone."""
    await asyncio.sleep(1)
    found = await cluster.get(SERVICE_CIDRS, name)
    if found is None:
        return None
    (condition,) = found["status"]["conditions"]
    condition.pop("lastTransitionTime")
    told: Obj = {"finalizers": found["metadata"].get("finalizers")} | condition
    return told


IS_READY = {
    "finalizers": [FINALIZER],
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes Service CIDR is ready",
}
IS_USED = IS_READY | {
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR",
}


def test_services_get_addresses_of_a_network_that_was_added() -> None:
    async def test(cluster: Cluster) -> None:
        error = await refusal(service(cluster, "early", clusterIP="10.9.0.5"))
        assert error.message.endswith("10.9.0.5: the provided network does not match the current range")
        await network(cluster, "more", "10.9.0.0/28")
        assert await ready(cluster, "more") == IS_READY
        assert await service(cluster, "asked", clusterIP="10.9.0.5") == "10.9.0.5"
        for edge in ("10.9.0.0", "10.9.0.15"):
            assert isinstance(await refusal(service(cluster, "edge", clusterIP=edge)), Invalid)
        given = {await service(cluster, f"s{number}") for number in range(40)}
        assert {address.rpartition(".")[0] for address in given} == {"10.0.0", "10.9.0"}
        await asyncio.sleep(1)
        address = await cluster.get(IP_ADDRESSES, "10.9.0.5")
        assert address is not None
        assert address["spec"]["parentRef"] == {"resource": "services", "namespace": "n", "name": "asked"}

    run(test)


def test_all_addresses_of_all_networks_are_given_and_given_back() -> None:
    async def test(cluster: Cluster) -> None:
        await network(cluster, "tiny", "10.9.0.0/30")
        await network(cluster, "none", "10.9.1.7/32")
        given = [await service(cluster, f"s{number}") for number in range(253 + 2)]
        assert len(set(given)) == 255
        error = await refusal(service(cluster, "late"))
        assert isinstance(error, InternalError) and error.message.endswith("range is full")
        await cluster.delete(SERVICES, f"s{given.index('10.9.0.2')}")
        assert await service(cluster, "late") == "10.9.0.2"

    run(test)


def test_a_network_whose_addresses_are_in_use_stays_until_they_are_given_back() -> None:
    async def test(cluster: Cluster) -> None:
        await network(cluster, "more", "10.9.0.0/24")
        await service(cluster, "web", clusterIP="10.9.0.5")
        await asyncio.sleep(1)
        await cluster.delete(SERVICE_CIDRS, "more")
        assert await ready(cluster, "more") == IS_USED
        error = await refusal(service(cluster, "next", clusterIP="10.9.0.6"))
        assert error.message.endswith("the provided network does not match the current range")
        assert {await service(cluster, f"s{number}") for number in range(40)} & {"10.9.0.6"} == set()
        await cluster.delete(SERVICES, "web")
        await asyncio.sleep(GRACE)
        assert await cluster.get(SERVICE_CIDRS, "more") is None

    run(test)


def test_a_network_goes_after_a_while_if_another_one_has_its_addresses() -> None:
    async def test(cluster: Cluster) -> None:
        await network(cluster, "more", "10.9.0.0/24")
        await service(cluster, "web", clusterIP="10.9.0.5")
        await asyncio.sleep(1)
        await cluster.delete(SERVICE_CIDRS, "more")
        assert await ready(cluster, "more") == IS_USED
        await network(cluster, "wider", "10.9.0.0/16")
        assert await service(cluster, "next", clusterIP="10.9.0.6") == "10.9.0.6"
        await asyncio.sleep(GRACE)
        assert await cluster.get(SERVICE_CIDRS, "more") is None
        address = await cluster.get(IP_ADDRESSES, "10.9.0.5")
        assert address is not None
        await network(cluster, "again", "10.9.0.0/24")
        await cluster.delete(SERVICE_CIDRS, "again")
        await asyncio.sleep(5)
        assert await cluster.get(SERVICE_CIDRS, "again") is not None, "others may still give its addresses"
        await asyncio.sleep(GRACE)
        assert await cluster.get(SERVICE_CIDRS, "again") is None

    run(test)


def test_the_default_network_gives_nothing_while_it_is_deleted() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.delete(SERVICE_CIDRS, "kubernetes")
        assert await ready(cluster, "kubernetes") == IS_USED
        assert isinstance(await refusal(service(cluster, "web")), InternalError)
        await network(cluster, "more", "10.0.0.0/16")
        await asyncio.sleep(GRACE)
        found = await ready(cluster, "kubernetes")
        assert found is not None and found["status"] == "True"
        assert (await service(cluster, "web")).startswith("10.0.")

    run(test)


def test_an_address_that_somebody_else_has_is_not_given() -> None:
    async def test(cluster: Cluster) -> None:
        parent = {"group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "n", "name": "g"}
        await cluster.create(IP_ADDRESSES, {"metadata": {"name": "10.0.0.77"}, "spec": {"parentRef": parent}})
        error = await refusal(service(cluster, "web", clusterIP="10.0.0.77"))
        assert error.message.endswith("10.0.0.77: provided IP is already allocated")
        await cluster.delete(IP_ADDRESSES, "10.0.0.77")
        assert await service(cluster, "web", clusterIP="10.0.0.77") == "10.0.0.77"

    run(test)


@pytest.mark.parametrize(
    ("cidrs", "told"),
    [
        ([], "spec.cidrs: Required value: at least one CIDR required"),
        (
            ["10.9.0.0/24", "10.8.0.0/24"],
            'spec.cidrs: Invalid value: ["10.9.0.0/24","10.8.0.0/24"]: may specify no more',
        ),
        (["10.9.0.0/24", "x"], 'spec.cidrs[1]: Invalid value: "x": must be a valid CIDR value'),
        (
            ["2001:DB8::/64"],
            'spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")',
        ),
        (["::ffff:1.2.3.4/90"], "must not have an IPv4-mapped IPv6 address"),
        (["::1.2.3.04/128"], "must not have leading 0s in IP or prefix length"),
        (["00001::/64"], "must not have leading 0s in IP or prefix length"),
        (["10.9.0.0/24", "fd00::/64", "fd01::/64"], "may only hold up to 2 values"),
        (["10.9.0.1/24"], 'spec.cidrs[0]: Invalid value: "10.9.0.1/24": must not have bits set beyond the prefix'),
        (["nonsense"], 'spec.cidrs[0]: Invalid value: "nonsense": must be a valid CIDR value'),
    ],
)
def test_what_is_refused_of_a_network(cidrs: list[str], told: str) -> None:
    async def test(cluster: Cluster) -> None:
        assert told in (await refusal(network(cluster, "x", *cidrs))).message

    run(test)


def test_a_network_stays_as_it_is_but_for_another_family() -> None:
    async def test(cluster: Cluster) -> None:
        await network(cluster, "more", "10.9.0.0/24")
        for cidrs in (["10.8.0.0/24"], ["10.8.0.0/24", "fd00::/64"]):
            error = await refusal(cluster.patch(SERVICE_CIDRS, "more", {"spec": {"cidrs": cidrs}}))
            assert 'spec.cidrs[0]: Invalid value: "10.8.0.0/24": field is immutable' in error.message
        await cluster.patch(SERVICE_CIDRS, "more", {"spec": {"cidrs": ["10.9.0.0/24", "fd00::/64"]}})
        error = await refusal(cluster.patch(SERVICE_CIDRS, "more", {"spec": {"cidrs": ["10.9.0.0/24"]}}))
        assert "spec.cidrs: Invalid value" in error.message

    run(test)


@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        ("10.0.0.077", {"parentRef": {"resource": "a", "name": "b"}}, "must not have leading 0s"),
        ("nonsense", {"parentRef": {"resource": "a", "name": "b"}}, "must be a valid IP address, (e.g. 10.9.8.7 or"),
        ("fd00:0::1", {"parentRef": {"resource": "a", "name": "b"}}, 'must be in canonical form ("fd00::1")'),
        ("10.0.0.77", {}, "spec.parentRef: Required value"),
        ("10.0.0.77", {"parentRef": {"name": "b"}}, "spec.parentRef.resource: Required value"),
        ("10.0.0.77", {"parentRef": {"resource": "a", "name": "b/c"}}, "spec.parentRef.name: Invalid value"),
    ],
)
def test_what_is_refused_of_an_address(name: str, spec: Obj, told: str) -> None:
    async def test(cluster: Cluster) -> None:
        error = await refusal(cluster.create(IP_ADDRESSES, {"metadata": {"name": name}, "spec": spec}))
        assert told in error.message

    run(test)
