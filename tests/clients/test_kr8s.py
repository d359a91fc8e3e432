"""kr8s: a client that feels like kubectl."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap, Deployment, Namespace, Pod

from tests.clients.conftest import Ways, deployment


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


@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_user_with_a_role(ways: Ways, way: str) -> None:
    async def main() -> None:
        own = await api(getattr(ways, way), "team")
        await (await ConfigMap({"metadata": {"name": f"kr8s-{way}", "namespace": "team"}}, api=own)).create()
        with pytest.raises(kr8s.ServerError, match="forbidden"):
            [item async for item in own.get("configmaps", namespace="default")]

    asyncio.run(main())
