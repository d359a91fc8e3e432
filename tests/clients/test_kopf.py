"""kopf: a real operator, with finalizers, a timer, peering and admission."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from cryptography import x509
from kubernetes import client, config
from kubernetes.client.rest import ApiException

from fairlead.runtime.authority import Authority, key_pem, new_key
from tests.clients.conftest import Ways

SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TOYS = ("example.com", "v1", "default", "toys")


def definition(group: str, plural: str, kind: str, *, status: bool, scope: str = "Namespaced") -> Any:
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    if status:
        version["subresources"] = {"status": {}}
    spec = {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


@pytest.fixture(scope="module")
def custom(ways: Ways) -> Any:
    connection = config.new_client_from_config(str(ways.admin))
    extensions = client.ApiextensionsV1Api(connection)
    for made in (
        definition("example.com", "toys", "Toy", status=False),
        definition("kopf.dev", "clusterkopfpeerings", "ClusterKopfPeering", status=False, scope="Cluster"),
        definition("kopf.dev", "kopfpeerings", "KopfPeering", status=False),
    ):
        extensions.create_custom_resource_definition(made)
    found = client.CustomObjectsApi(connection)
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "toys"}}
    soon(lambda: found.create_namespaced_custom_object("kopf.dev", "v1", "default", "kopfpeerings", peering))
    return found


def soon(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """What it answers once it does not refuse and is true."""
    deadline = monotonic() + seconds
    while True:
        try:
            if answer := holds():
                return answer
        except ApiException as error:
            if monotonic() > deadline:
                raise AssertionError("it never came to be") from error
        assert monotonic() < deadline, "it never came to be"
        sleep(0.05)


async def certificates() -> dict[str, bytes]:
    """A server's certificate, its key, and the authority that signed it."""
    authority, key = Authority.make("webhooks"), new_key()
    names = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = authority.sign(x509.Name([]), key.public_key(), ["server auth"], 3600.0, names)
    return {"CERTIFICATE": certificate, "KEY": key_pem(key), "CA": authority.certificate_pem}


@contextmanager
def operator(ways: Ways, folder: Path, *, admission: bool) -> Iterator[None]:
    environment = os.environ | {"KUBECONFIG": str(ways.admin)}
    if admission:
        files = asyncio.run(certificates())
        for name, content in files.items():
            path = folder / name.lower()
            path.write_bytes(content)
            environment[f"WEBHOOK_{name}"] = str(path)
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--namespace",
        "default",
        str(Path(__file__).with_name("operator.py")),
    ]
    with (folder / "operator.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        except BaseException:
            print((folder / "operator.log").read_text()[-6000:])
            raise
        finally:
            process.terminate()
            process.wait(30)


def toy(name: str, **spec: str) -> Any:
    return {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec}


def test_an_operator_creates_follows_ticks_and_cleans_up(ways: Ways, custom: Any, tmp_path: Path) -> None:
    core = client.CoreV1Api(custom.api_client)
    with operator(ways, tmp_path, admission=False):
        custom.create_namespaced_custom_object(*TOYS, toy("ball", color="red"))
        soon(lambda: core.read_namespaced_config_map("ball-child", "default").data == {"color": "red"})
        child = core.read_namespaced_config_map("ball-child", "default")
        assert child.metadata.owner_references[0].name == "ball"
        found = soon(lambda: ball(custom) if ball(custom).get("status", {}).get("ticks", 0) >= 3 else None)
        assert found["metadata"]["finalizers"]
        assert found["status"]["made"] == {"child": "ball-child"}
        custom.patch_namespaced_custom_object(*TOYS, "ball", {"spec": {"color": "blue"}})
        soon(lambda: ball(custom)["status"].get("color") == "blue")
        peering = custom.get_namespaced_custom_object("kopf.dev", "v1", "default", "kopfpeerings", "toys")
        assert len(peering["status"]) == 1
        custom.delete_namespaced_custom_object(*TOYS, "ball")
        soon(lambda: not custom.list_namespaced_custom_object(*TOYS)["items"])
        soon(
            lambda: (
                "ball-child" not in {each.metadata.name for each in core.list_namespaced_config_map("default").items}
            )
        )


def ball(custom: Any) -> Any:
    return custom.get_namespaced_custom_object(*TOYS, "ball")


@pytest.mark.slow
def test_an_operator_that_objects(ways: Ways, custom: Any, tmp_path: Path) -> None:
    hooks = client.AdmissionregistrationV1Api(custom.api_client)
    with operator(ways, tmp_path, admission=True):
        soon(lambda: any(each.webhooks for each in hooks.list_validating_webhook_configuration().items))
        soon(lambda: any(each.webhooks for each in hooks.list_mutating_webhook_configuration().items))
        with pytest.raises(ApiException, match="green is sold out") as refused:
            custom.create_namespaced_custom_object(*TOYS, toy("frog", color="green"))
        assert refused.value.status == 422
        made = custom.create_namespaced_custom_object(*TOYS, toy("cube", color="red"))
        assert made["spec"] == {"color": "red", "weight": "1"}
        custom.delete_namespaced_custom_object(*TOYS, "cube")
        soon(lambda: not custom.list_namespaced_custom_object(*TOYS)["items"])
