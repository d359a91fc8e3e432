"""The asynchronous Python client (`kubernetes_asyncio`)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.leaderelection.electionconfig import Config
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

from tests.clients.conftest import Ways, deployment


async def api(kubeconfig: Path) -> Any:
    return await config.new_client_from_config(str(kubeconfig))


def test_create_patch_apply_watch_delete(ways: Ways, namespace: str) -> None:
    async def main() -> None:
        async with await api(ways.admin) as connection:
            core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
            await core.create_namespace({"metadata": {"name": namespace}})
            await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
            patch = [{"op": "replace", "path": "/data/k", "value": "w"}]
            types = {
                "application/json-patch+json": patch,
                "application/merge-patch+json": {"data": {"l": "1"}},
                "application/strategic-merge-patch+json": {"data": {"m": "2"}},
            }
            for type_, body in types.items():
                await core.patch_namespaced_config_map("a", namespace, body, _content_type=type_)
            assert (await core.read_namespaced_config_map("a", namespace)).data == {"k": "w", "l": "1", "m": "2"}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "b"}}
            applied = await core.patch_namespaced_config_map(
                "s", namespace, body, field_manager="one", _content_type="application/apply-patch+yaml"
            )
            assert applied.metadata.managed_fields[0].operation == "Apply"
            await apps.create_namespaced_deployment(namespace, deployment("web"))
            async with watch.Watch().stream(apps.list_namespaced_deployment, namespace, timeout_seconds=60) as events:
                async for event in events:
                    if event["object"].status.ready_replicas == 2:
                        break
            await core.delete_namespace(namespace)

    asyncio.run(main())


def test_a_watch_that_ends_goes_on_where_it_was(ways: Ways, namespace: str) -> None:
    names = [f"c{number:02}" for number in range(30)]

    async def write(core: Any) -> None:
        for name in names:
            await core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})

    async def main() -> list[str]:
        async with await api(ways.admin) as connection:
            core = client.CoreV1Api(connection)
            await core.create_namespace({"metadata": {"name": namespace}})
            version = (await core.list_namespaced_config_map(namespace)).metadata.resource_version
            seen: list[str] = []
            writing = asyncio.create_task(write(core))
            while len(seen) < len(names):
                arguments = {"resource_version": version, "timeout_seconds": 1}
                async with watch.Watch().stream(core.list_namespaced_config_map, namespace, **arguments) as events:
                    async for event in events:
                        version = event["object"].metadata.resource_version
                        if event["object"].metadata.name in names:
                            seen.append(event["object"].metadata.name)
                        if len(seen) == len(names):
                            break
            await writing
            return seen

    assert asyncio.run(main()) == names


def test_leader_election(ways: Ways, namespace: str) -> None:
    """Of two candidates the second leads when the first has given up."""
    leaders: list[str] = []

    async def candidate(connection: Any, name: str, started: asyncio.Event) -> None:
        async def lead() -> None:
            leaders.append(name)
            started.set()

        async def stopped() -> None:
            """There is nothing to put away."""

        lock = LeaseLock("lock", namespace, name, connection)
        options = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 1}
        await LeaderElection(Config(lock, onstarted_leading=lead, onstopped_leading=stopped, **options)).run()

    async def main() -> None:
        async with await api(ways.admin) as connection:
            await client.CoreV1Api(connection).create_namespace({"metadata": {"name": namespace}})
            leads = {name: asyncio.Event() for name in ("one", "two")}
            first = asyncio.create_task(candidate(connection, "one", leads["one"]))
            await asyncio.wait_for(leads["one"].wait(), 60)
            second = asyncio.create_task(candidate(connection, "two", leads["two"]))
            lease = await client.CoordinationV1Api(connection).read_namespaced_lease("lock", namespace)
            assert lease.spec.holder_identity == "one"
            first.cancel()
            await asyncio.wait_for(leads["two"].wait(), 60)
            second.cancel()
            await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(main())
    assert leaders == ["one", "two"]


@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_user_with_a_role(ways: Ways, way: str) -> None:
    async def main() -> int:
        async with await api(getattr(ways, way)) as connection:
            core = client.CoreV1Api(connection)
            await core.create_namespaced_config_map("team", {"metadata": {"name": f"async-{way}"}})
            with pytest.raises(ApiException) as refused:
                await core.list_namespaced_config_map("default")
            code: int = refused.value.status
            return code

    assert asyncio.run(main()) == 403
