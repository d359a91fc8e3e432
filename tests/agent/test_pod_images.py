"""Images of pods on a real node: pulled as their policies say, or told of."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from fairlead.api.builtin import SECRETS
from fairlead.api.objects import Obj
from tests.agent.containerd import entries, with_containerd
from tests.agent.images.archives import layer
from tests.agent.images.registries import PASSWORD, USER, LocalRegistry
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE

PRIVATE = "registry.example/team/app:1"


@real_containers
@in_loop
async def test_images_are_pulled_and_missing_ones_are_told_of(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        node.images.registry["far/away:1"] = node.images.here[IMAGE]
        await node.create(manifest("pulled", "sleep", "1000", image="far/away:1"))
        await node.create(manifest("missing", "true", image="no/where:1"))
        await node.create(manifest("never", "true", image="no/where:1", imagePullPolicy="Never"))
        await node.until("pulled", is_running)
        told = await node.reasons("pulled", lambda reasons: "Started" in reasons)
        assert [reason for reason in told if "Schedul" not in reason] == ["Pulling", "Pulled", "Created", "Started"]

        await node.until("missing", waits_for("ImagePullBackOff"))
        await node.until("never", waits_for("ErrImageNeverPull"))


@real_containers
@in_loop
async def test_an_image_that_is_here_is_for_those_who_may_pull_it(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        node.images.registry[PRIVATE] = replace(node.images.here[IMAGE], id="sha256:" + "2" * 64)
        node.images.passwords[PRIVATE] = PASSWORD
        await node.api.create(SECRETS, _secret("login", PRIVATE.partition("/")[0]), "default")
        await node.create(_private("first"))
        await node.until("first", is_running)
        await node.create(_private("knows"))
        await node.until("knows", is_running)
        here = f'Container image "{PRIVATE}" already present on machine and can be accessed by the pod'
        await node.told("knows", "Pulled", here)
        await node.stop()
        await node.start()
        await node.create(_private("stranger", secret=""))
        await node.create(_private("never", secret="", imagePullPolicy="Never"))
        await node.create(_private("wrong", secret="nothing"))
        await node.until("stranger", waits_for("ImagePullBackOff"))
        await node.until("never", waits_for("ErrImageNeverPull"))
        await node.until("wrong", waits_for("ImagePullBackOff"))
        failed = f'Failed to pull image "{PRIVATE}": {PRIVATE}: 401 Unauthorized'
        await node.told("stranger", "Failed", failed)
        missing = "Unable to retrieve some image pull secrets (nothing); attempting to pull the image may not succeed."
        await node.told("wrong", "FailedToRetrieveImagePullSecret", missing)


@real_containers
@in_loop
async def test_a_node_may_give_everybody_what_it_has_pulled(tmp_path: Path) -> None:
    async with real_node(tmp_path, {"imagePullCredentialsVerificationPolicy": "NeverVerify"}) as node:
        node.images.registry[PRIVATE] = replace(node.images.here[IMAGE], id="sha256:" + "2" * 64)
        node.images.passwords[PRIVATE] = PASSWORD
        await node.api.create(SECRETS, _secret("login", PRIVATE.partition("/")[0]), "default")
        await node.create(_private("first"))
        await node.until("first", is_running)
        await node.create(_private("stranger", secret=""))
        await node.until("stranger", is_running)


@with_containerd
@in_loop
async def test_containerd_pulls_with_the_credentials_of_a_pod(tmp_path: Path) -> None:
    async with LocalRegistry(login="basic").served() as registry, real_node(tmp_path, kind=CONTAINERD) as node:
        registry.tag("1", registry.image([layer(*entries(tmp_path / "rootfs"))], Cmd=["sleep", "1000"]))
        image = f"{registry.address}/team/tools:1"
        await node.api.create(SECRETS, _secret("login", registry.address), "default")
        unknown = manifest("unknown", "sleep", "1000", image=image)
        await node.create(unknown)
        await node.until("unknown", waits_for("ImagePullBackOff"))
        known = manifest("known", image=image, spec={"imagePullSecrets": [{"name": "login"}]})
        del known["spec"]["containers"][0]["command"]
        await node.create(known)
        pod = await node.until("known", is_running)
        assert state(pod)["imageID"] == f"{registry.address}/team/tools@{registry.manifests['1']}"
        told = await node.reasons("known", lambda reasons: "Started" in reasons)
        assert [reason for reason in told if "Schedul" not in reason] == ["Pulling", "Pulled", "Created", "Started"]
        refusals = ("401 Unauthorized", "no basic auth credentials")  # of containerd 1 and 2
        assert any(message.endswith(refusals) for _, message in await node.events("unknown"))


def _secret(name: str, registry: str) -> Obj:
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    document = msgspec.json.encode({"auths": {registry: {"auth": auth}}})
    return {
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(document).decode()},
    }


def _private(name: str, secret: str = "login", **container: str) -> Obj:
    spec = {"imagePullSecrets": [{"name": secret}]} if secret else {}
    return manifest(name, "sleep", "1000", image=PRIVATE, spec=spec, **container)


def waits_for(reason: str) -> Callable[[Obj], bool]:
    return lambda pod: state(pod).get("state", {}).get("waiting", {}).get("reason") == reason
