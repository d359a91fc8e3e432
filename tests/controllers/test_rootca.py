"""Every namespace has the certificate by which its pods know their server, and nobody can take it away (C16)."""

from __future__ import annotations

import asyncio
from functools import partial

from fairlead.api import builtin
from fairlead.api.configmaps import ROOT_CERTIFICATES
from fairlead.api.objects import Obj
from fairlead.controllers.namespace import Namespaces
from fairlead.controllers.rootca import RootCertificates
from tests.controllers.cluster import Cluster, run
from tests.played import played

ABOUT = "kubernetes.io/description"


async def found(cluster: Cluster, namespace: str = "n") -> Obj:
    await asyncio.sleep(1)
    config_map = await cluster.get(builtin.CONFIG_MAPS, ROOT_CERTIFICATES, namespace)
    assert config_map is not None
    return config_map


@played(run, partial(RootCertificates, "PEM"), Namespaces)
async def test_the_certificate_is_published_kept_and_put_right(cluster: Cluster) -> None:
    made = await found(cluster)
    assert made["data"] == {"ca.crt": "PEM"}
    assert made["metadata"]["annotations"][ABOUT].startswith("Contains a CA bundle that can be used to verify")
    await cluster.patch(builtin.CONFIG_MAPS, ROOT_CERTIFICATES, {"data": {"ca.crt": "forged", "more": "x"}})
    assert (await found(cluster))["data"] == {"ca.crt": "PEM"}
    await cluster.patch(builtin.CONFIG_MAPS, ROOT_CERTIFICATES, {"metadata": {"annotations": {ABOUT: "mine"}}})
    assert (await found(cluster))["metadata"]["annotations"] == {ABOUT: "mine"}  # as upstream: any text will do
    await cluster.delete(builtin.CONFIG_MAPS, ROOT_CERTIFICATES)
    assert (await found(cluster))["metadata"]["uid"] != made["metadata"]["uid"]
    await cluster.create(builtin.NAMESPACES, {"metadata": {"name": "later"}})
    assert (await found(cluster, "later"))["data"] == {"ca.crt": "PEM"}


@played(run, partial(RootCertificates, "PEM"), Namespaces)
async def test_it_does_not_keep_a_namespace_from_going(cluster: Cluster) -> None:
    await found(cluster)
    await cluster.delete(builtin.NAMESPACES, "n")
    await asyncio.sleep(5)
    assert await cluster.get(builtin.NAMESPACES, "n") is None
