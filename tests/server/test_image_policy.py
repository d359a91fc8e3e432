"""ImagePolicyWebhook asks a service about images, over real HTTPS, and what becomes of what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import PODS
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.runtime.loops import run
from fairlead.server.admission.base import Attributes
from fairlead.server.admission.chain import check_choice
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.admission.image_policy import ImagePolicyWebhook
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.server.admission_world import World, creation, pod
from tests.server.https_services import Reviewer
from tests.server.test_admission_configuration import HEAD, nested, read

NAME = "ImagePolicyWebhook"
DENIED = 'pods "p" is forbidden: image policy webhook backend denied one or more images: not signed'


@pytest.fixture
def reviewer(tmp_path: Path) -> Iterator[Reviewer]:
    made = Reviewer(tmp_path)
    with made.serving():
        yield made


def configured(reviewer: Reviewer, folder: Path, **more: Any) -> AdmissionConfiguration:
    fields = {"kubeConfigFile": str(reviewer.kubeconfig), **more}
    text = "imagePolicy:\n" + "".join(f"  {name}: {str(value).lower()}\n" for name, value in fields.items())
    return read(folder, HEAD + nested(NAME, text.replace(str(reviewer.kubeconfig).lower(), str(reviewer.kubeconfig))))


def asking(configuration: AdmissionConfiguration, steps: Callable[[ImagePolicyWebhook], Awaitable[None]]) -> None:
    async def whole() -> None:
        plugin = ImagePolicyWebhook(replace(World().dependencies, configuration=configuration))
        try:
            await steps(plugin)
        finally:
            await plugin.close()

    run(whole())


async def refusal(plugin: ImagePolicyWebhook, attributes: Attributes) -> str:
    with pytest.raises(ApiError) as refused:
        await plugin.validate(attributes)
    assert refused.value.code == 403
    return refused.value.message


def signed(spec: Obj) -> Obj:
    is_signed = all(container["image"].startswith("signed/") for container in spec["containers"])
    return {"allowed": True} if is_signed else {"allowed": False, "reason": "not signed"}


def with_images(*images: str, **more: Any) -> Obj:
    return pod(containers=[{"name": f"c{index}", "image": image} for index, image in enumerate(images)], **more)


def test_a_service_decides_about_images(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.status = signed

    async def steps(plugin: ImagePolicyWebhook) -> None:
        obj = with_images("signed/a", initContainers=[{"name": "i", "image": "signed/b"}])
        annotations = {"mine.image-policy.k8s.io/ticket": "break-glass", "image-policy.k8s.io/x": "", "other": "x"}
        obj["metadata"]["annotations"] = annotations
        await plugin.validate(creation(obj))
        assert reviewer.reviews == [
            {
                "kind": "ImageReview",
                "apiVersion": "imagepolicy.k8s.io/v1alpha1",
                "metadata": {},
                "spec": {
                    "containers": [{"image": "signed/a"}, {"image": "signed/b"}],
                    "annotations": {"mine.image-policy.k8s.io/ticket": "break-glass"},
                    "namespace": "ns",
                },
                "status": {"allowed": False},
            }
        ]
        assert reviewer.headers["Authorization"] == "Bearer from-fairlead"
        assert await refusal(plugin, creation(with_images("signed/a", "other"))) == DENIED
        reviewer.status = lambda spec: {"allowed": False}
        assert await refusal(plugin, creation(with_images("third"))) == (
            'pods "p" is forbidden: one or more images rejected by webhook backend'
        )

    asking(configured(reviewer, tmp_path), steps)


def test_answers_count_for_a_while(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.status = signed

    async def ask(plugin: ImagePolicyWebhook, image: str) -> None:
        if image.startswith("signed/"):
            await plugin.validate(creation(with_images(image)))
        else:
            await refusal(plugin, creation(with_images(image)))

    async def remembered(plugin: ImagePolicyWebhook) -> None:
        for image in ("signed/a", "signed/a", "other", "other"):
            await ask(plugin, image)
        assert len(reviewer.reviews) == 2

    async def forgotten(plugin: ImagePolicyWebhook) -> None:
        reviewer.reviews.clear()
        for image in ("signed/a", "signed/a", "other", "other"):
            await ask(plugin, image)
        assert len(reviewer.reviews) == 3  # those that are allowed alone count for a while

    async def long(plugin: ImagePolicyWebhook) -> None:
        reviewer.reviews.clear()
        reviewer.status = lambda spec: {"allowed": True, "auditAnnotations": {"why": "x" * 5000}}
        for _ in range(2):
            await ask(plugin, "signed/a")
        assert len(reviewer.reviews) == 2

    asking(configured(reviewer, tmp_path), remembered)
    asking(configured(reviewer, tmp_path, denyTTL=-1), forgotten)
    asking(configured(reviewer, tmp_path), long)


def test_without_an_answer_the_default_decides(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.code = 500

    async def closed(plugin: ImagePolicyWebhook) -> None:
        text = 'an error on the server ("unknown") has prevented the request from succeeding'
        assert await refusal(plugin, creation(pod())) == f'pods "p" is forbidden: {text}'
        assert len(reviewer.reviews) == 5  # what may pass is tried again

    async def open_(plugin: ImagePolicyWebhook) -> None:
        await plugin.validate(creation(pod()))
        reviewer.code, reviewer.status = 200, lambda spec: {"allowed": False}
        await refusal(plugin, creation(pod()))  # an answer that did not come is not remembered

    asking(configured(reviewer, tmp_path, retryBackoff=1), closed)
    asking(configured(reviewer, tmp_path, retryBackoff=1, defaultAllow=True), open_)


@pytest.mark.parametrize("answer", [[1, 2], "x", {"allowed": "yes"}, {"allowed": True, "auditAnnotations": [1]}])
def test_an_answer_that_is_none_lets_nobody_in(reviewer: Reviewer, tmp_path: Path, answer: Any) -> None:
    reviewer.status = lambda spec: answer

    async def steps(plugin: ImagePolicyWebhook) -> None:
        assert "the answer cannot be read" in await refusal(plugin, creation(pod()))

    asking(configured(reviewer, tmp_path, retryBackoff=1), steps)


def test_ephemeral_containers_and_new_images_are_asked_about(reviewer: Reviewer, tmp_path: Path) -> None:
    reviewer.status = signed

    async def steps() -> None:
        server = Server(MemoryStore())
        await server.open(
            enabled_admission=[NAME],
            disabled_admission=["ServiceAccount"],
            admission_configuration=configured(reviewer, tmp_path),
        )
        serving = asyncio.create_task(server.run())
        try:
            obj = with_images("signed/a")
            del obj["metadata"]["namespace"]
            await server.api.create(PODS, obj, "default")
            debugging = {"name": "d", "image": "busybox", "terminationMessagePolicy": "File"}
            change: Obj = {"spec": {"ephemeralContainers": [debugging]}}
            with pytest.raises(ApiError) as refused:
                await server.api.patch(
                    PODS, "p", "default", change, PatchType.STRATEGIC, subresource="ephemeralcontainers"
                )
            assert refused.value.message == DENIED
            assert reviewer.reviews[-1]["spec"] == {"containers": [{"image": "busybox"}], "namespace": "default"}
            other: Obj = {"spec": {"containers": [{"name": "c0", "image": "other"}]}}
            with pytest.raises(ApiError) as refused:
                await server.api.patch(PODS, "p", "default", other, PatchType.STRATEGIC)
            assert refused.value.message == DENIED
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    run(steps())


def test_it_needs_a_configuration_that_makes_sense(reviewer: Reviewer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f'couldn\'t init admission plugin "{NAME}": no config specified'):
        check_choice([NAME], [], UNCONFIGURED)
    for field, value, text in (
        ("allowTTL", 1801, "valid value is between 1s and 30m0s, got 30m1s"),
        ("denyTTL", -2, "valid value is between 1s and 30m0s, got -2s"),
        ("retryBackoff", 300_001, "valid value is between 1ns and 5m0s, got 5m0.001s"),
    ):
        with pytest.raises(ValueError, match=text):
            configured(reviewer, tmp_path, **{field: value})
    with pytest.raises(ValueError, match=r"imagePolicy\.kubeConfigFile: Required value"):
        read(tmp_path, HEAD + nested(NAME, "imagePolicy: {}"))
