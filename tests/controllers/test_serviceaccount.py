"""Every namespace has its default account, and token secrets follow the account that they are for (X-10)."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.controllers.serviceaccount import DefaultServiceAccounts, TokenSecrets
from tests.controllers.cluster import Cluster, run
from tests.played import played


@played(run, DefaultServiceAccounts)
async def test_the_default_account_comes_with_the_namespace_and_comes_back(cluster: Cluster) -> None:
    for _ in range(2):
        await asyncio.sleep(1)
        assert await cluster.get(builtin.SERVICE_ACCOUNTS, "default") is not None
        await cluster.delete(builtin.SERVICE_ACCOUNTS, "default")


@played(run, TokenSecrets)
async def test_a_token_secret_without_its_account_goes(cluster: Cluster) -> None:
    meta = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "bot"}}
    await cluster.create(builtin.SECRETS, {"metadata": meta, "type": "kubernetes.io/service-account-token"})
    await asyncio.sleep(1)
    assert await cluster.get(builtin.SECRETS, "t") is None
