"""kr8s: a client that feels like kubectl."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap, Deployment, Namespace, Pod

from tests.clients.conftest import Ways, deployment
from tests.processes import fairlead_up


async def api(kubeconfig: Path, namespace: str = "default") -> Any:
    return await kr8s.asyncio.api(kubeconfig=str(kubeconfig), namespace=namespace)


def test_create_patch_scale_wait_delete(ways: Ways, namespace: str) -> None:
    async def main() -> None:
        own = await api(ways.admin, namespace)
        await (await Namespace({"metadata": {"name": namespace}}, api=own)).create()
        found = await ConfigMap({"metadata": {"name": "a", "namespace": namespace}, "data": {"k": "v"}}, api=own)
        await found.create()
        await found.patch({"data": {"l": "1"}})
        await found.patch([{"op": "replace", "path": "/data/k", "value": "w"}], type="json")
        await found.label({"x": "y"})
        assert found.raw["data"] == {"k": "w", "l": "1"}
        listed = [item async for item in own.get("configmaps", namespace=namespace, label_selector={"x": "y"})]
        assert [item.name for item in listed] == ["a"]
        web = await Deployment({**deployment("web"), "metadata": {"name": "web", "namespace": namespace}}, api=own)
        await web.create()
        await web.wait("condition=Available", timeout=60)
        await web.scale(1)
        assert (await web.pods())[0].labels["app"] == "web"
        await found.delete()
        assert not await found.exists()

    asyncio.run(main())


def test_watching_pods(ways: Ways, namespace: str) -> None:
    async def main() -> None:
        own = await api(ways.admin, namespace)
        await (await Namespace({"metadata": {"name": namespace}}, api=own)).create()
        async for _, account in own.watch("serviceaccounts", namespace=namespace):
            if account.name == "default":  # which every pod needs
                break
        spec = {"containers": [{"name": "c", "image": "nginx"}]}
        pod = await Pod({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}, api=own)
        await pod.create()
        async for type_, found in own.watch("pods", namespace=namespace):
            assert type_ in ("ADDED", "MODIFIED")
            if found.raw["status"].get("phase") == "Running":
                break

    asyncio.run(main())


def test_apply(ways: Ways, namespace: str) -> None:
    """kr8s has no verb for it: the same request that it makes for its own patches."""

    async def apply(own: Any, manager: str, value: str, force: str = "false") -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": value}}
        async with own.call_api(
            "PATCH",
            namespace=namespace,
            url="configmaps/s",
            params={"fieldManager": manager, "force": force},
            content=json.dumps(body),
            headers={"Content-Type": "application/apply-patch+yaml"},
        ) as answer:
            return answer.json()

    async def main() -> None:
        own = await api(ways.admin, namespace)
        await (await Namespace({"metadata": {"name": namespace}}, api=own)).create()
        assert (await apply(own, "one", "b"))["metadata"]["managedFields"][0]["manager"] == "one"
        with pytest.raises(kr8s.ServerError, match='conflict with "one"'):
            await apply(own, "two", "c")
        await apply(own, "two", "c", force="true")
        found = await ConfigMap.get("s", namespace=namespace, api=own)
        assert found.raw["data"] == {"a": "c"}
        assert [entry.manager for entry in found.metadata.managedFields] == ["two"]

    asyncio.run(main())


def test_a_watch_goes_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    """Nothing that happened meanwhile is missed."""

    def config(own: Any, name: str) -> Any:
        return ConfigMap({"metadata": {"name": name, "namespace": "default"}}, api=own)

    async def told(own: Any, since: str, until: str) -> list[str]:
        names = []
        async for _, found in own.watch("configmaps", namespace="default", since=since):
            names.append(found.name)
            if found.name == until:
                break
        return names

    async def before(kubeconfig: Path) -> str:
        own = await api(kubeconfig)
        first = await config(own, "first")
        await first.create()
        for name in ("second", "third"):
            await (await config(own, name)).create()
        return str(first.metadata.resourceVersion)

    async def after(kubeconfig: Path, since: str) -> list[str]:
        own = await api(kubeconfig)
        await (await config(own, "fourth")).create()
        return await told(own, since, "fourth")

    options = ("--components", "api,controllers")
    with fairlead_up(tmp_path / "data", *options) as up:
        since = asyncio.run(before(up.kubeconfig))
    with fairlead_up(tmp_path / "data", *options) as up:
        assert asyncio.run(after(up.kubeconfig, since)) == ["second", "third", "fourth"]


@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_user_with_a_role(ways: Ways, way: str) -> None:
    async def main() -> None:
        own = await api(getattr(ways, way), "team")
        await (await ConfigMap({"metadata": {"name": f"kr8s-{way}", "namespace": "team"}}, api=own)).create()
        with pytest.raises(kr8s.ServerError, match="forbidden"):
            [item async for item in own.get("configmaps", namespace="default")]

    asyncio.run(main())
