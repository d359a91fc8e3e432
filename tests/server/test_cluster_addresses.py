"""The service network and its addresses are objects, as kube-apiserver 1.36 has them (issue 16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.api.builtin import ENDPOINT_SLICES, ENDPOINTS, IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.registry_api import RegistryApi


def service(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]} | spec}


async def given_out(api: RegistryApi) -> dict[str, str]:
    """Each address and the service that has it, once all is quiet."""
    await asyncio.sleep(1)
    found = [item.obj() for item in (await api.list(IP_ADDRESSES)).items]
    return {it["metadata"]["name"]: "{namespace}/{name}".format(**it["spec"]["parentRef"]) for it in found}


def test_every_service_address_is_an_object_that_names_its_service() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            assert await given_out(api) == {"10.0.0.1": "default/kubernetes"}
            address = (await api.get(IP_ADDRESSES, "10.0.0.1")).obj()
            assert address["metadata"]["labels"] == {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            }
            assert address["spec"] == {
                "parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}
            }
            made = (await api.create(SERVICES, service("web", clusterIP="10.0.0.7"), "default")).obj()
            await api.create(SERVICES, service("headless", clusterIP="None"), "default")
            own = {"10.0.0.1": "default/kubernetes", "10.0.0.7": "default/web"}
            assert await given_out(api) == own
            await api.delete(IP_ADDRESSES, "10.0.0.7")  # it comes back while it is taken
            assert await given_out(api) == own
            await api.delete(SERVICES, "web", "default")
            assert await given_out(api) == {"10.0.0.1": "default/kubernetes"}
            await api.create(SERVICES, service("next", clusterIP=made["spec"]["clusterIP"]), "default")
            assert await given_out(api) == {"10.0.0.1": "default/kubernetes", "10.0.0.7": "default/next"}

    run_virtual(main())


def test_the_endpoints_of_the_api_server_say_where_it_listens() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            await api.server.advertise("127.0.0.1", 6443)  # that is nowhere to others
            assert not (await api.list(ENDPOINTS)).items
            for address, port in (("192.0.2.7", 6443), ("192.0.2.8", 6444)):  # as after another start
                await api.server.advertise(address, port)
                endpoints = (await api.get(ENDPOINTS, "kubernetes", "default")).obj()
                ports = [{"name": "https", "port": port, "protocol": "TCP"}]
                assert endpoints["subsets"] == [{"addresses": [{"ip": address}], "ports": ports}]
                assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
                (found,) = (await api.list(ENDPOINT_SLICES, "default")).items
                slice_ = found.obj()
                assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
                assert slice_["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]
                assert (slice_["addressType"], slice_["ports"]) == ("IPv4", ports)
            version = endpoints["metadata"]["resourceVersion"]
            await api.server.advertise(address, port)
            assert (await api.get(ENDPOINTS, "kubernetes", "default")).obj()["metadata"]["resourceVersion"] == version

    run_virtual(main())


def test_the_service_network_is_an_object_and_ready() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            network = (await api.get(SERVICE_CIDRS, "kubernetes")).obj()
            assert network["spec"] == {"cidrs": ["10.0.0.0/24"]}
            [ready] = network["status"]["conditions"]
            assert (ready["type"], ready["status"]) == ("Ready", "True")
            assert ready["message"] == "Kubernetes default Service CIDR is ready"
            await api.delete(SERVICE_CIDRS, "kubernetes")
            await asyncio.sleep(1)
            again = (await api.get(SERVICE_CIDRS, "kubernetes")).obj()
            assert again["metadata"]["uid"] != network["metadata"]["uid"]
            assert again["status"]["conditions"][0]["status"] == "True"

    run_virtual(main())


UNLABELLED = {"metadata": {"labels": {"ipaddress.kubernetes.io/managed-by": None}}}


def test_an_object_that_is_no_longer_labelled_goes_with_its_service() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            await api.create(SERVICES, service("web", clusterIP="10.0.0.7"), "default")
            await asyncio.sleep(1)
            await api.patch(IP_ADDRESSES, "10.0.0.7", "", UNLABELLED)
            await api.delete(SERVICES, "web", "default")
            assert await given_out(api) == {"10.0.0.1": "default/kubernetes"}
            await api.create(SERVICES, service("next", clusterIP="10.0.0.7"), "default")  # the address is free again

    run_virtual(main())


def test_an_object_that_is_no_longer_labelled_is_made_anew_after_a_while() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            await api.create(SERVICES, service("web", clusterIP="10.0.0.7"), "default")
            await asyncio.sleep(1)
            before = (await api.get(IP_ADDRESSES, "10.0.0.7")).obj()
            for _ in range(3):
                await api.patch(IP_ADDRESSES, "10.0.0.7", "", UNLABELLED)
            await asyncio.sleep(200)
            again = (await api.get(IP_ADDRESSES, "10.0.0.7")).obj()
            assert again["metadata"]["labels"] == before["metadata"]["labels"]
            assert again["metadata"]["uid"] != before["metadata"]["uid"] and again["spec"] == before["spec"]

    run_virtual(main())


def test_who_always_makes_them_wrong_makes_no_haste_of_it() -> None:
    """A webhook or a policy may take the label off whatever is made."""

    async def main() -> None:
        async with RegistryApi() as api:
            await api.create(SERVICES, service("web", clusterIP="10.0.0.7"), "default")
            made = set[str]()
            for _ in range(3_600):
                await asyncio.sleep(1)
                meta = (await api.get(IP_ADDRESSES, "10.0.0.7")).obj()["metadata"]
                made.add(meta["uid"])
                if "ipaddress.kubernetes.io/managed-by" in meta["labels"]:
                    await api.patch(IP_ADDRESSES, "10.0.0.7", "", UNLABELLED)
            assert 10 < len(made) <= 21

    run_virtual(main())


def test_an_address_of_somebody_else_is_left_alone() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            own = {"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": {"resource": "gateways", "name": "g"}}}
            await api.create(IP_ADDRESSES, own)
            await asyncio.sleep(1)
            assert (await api.get(IP_ADDRESSES, "10.0.0.9")).obj()["spec"] == own["spec"]

    run_virtual(main())


def test_a_policy_that_refuses_the_objects_keeps_no_server_from_starting() -> None:
    """They come when it allows them."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["ipaddresses"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    binding = {"policyName": "p", "validationActions": ["Deny"]}

    async def main() -> None:
        store = MemoryStore()
        async with serving(store) as server:
            rows = {row.kind: row for row in server.registry.catalogue.rows()}
            policies, bindings = rows["ValidatingAdmissionPolicy"], rows["ValidatingAdmissionPolicyBinding"]
            await server.api.create(policies, {"metadata": {"name": "p"}, "spec": spec})
            await server.api.create(bindings, {"metadata": {"name": "b"}, "spec": binding})
            made = (await server.api.create(SERVICES, service("a"), "default")).obj()
            await asyncio.sleep(10)
        ip = made["spec"]["clusterIP"]
        async with serving(store) as server:
            with pytest.raises(NotFound):
                await server.api.get(IP_ADDRESSES, ip)
            await server.api.delete(bindings, "b")
            await asyncio.sleep(60)
            assert (await server.api.get(IP_ADDRESSES, ip)).obj()["spec"]["parentRef"]["name"] == "a"

    run_virtual(main())


@asynccontextmanager
async def serving(store: MemoryStore) -> AsyncIterator[Server]:
    server = Server(store)
    await server.open(["ServiceAccount"])
    running = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
