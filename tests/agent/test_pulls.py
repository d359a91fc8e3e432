"""How many images a node pulls at once, and how many in a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.images.credentials import Credential
from fairlead.agent.images_seam import PullFailure
from fairlead.agent.pods.pull_records import HashedSecret, PullRecords
from fairlead.agent.pods.pulls import Pulls
from fairlead.node.configuration.load import configure
from fairlead.runtime.loops import run
from tests.agent.folder_images import FolderImage, FolderImages


@dataclass
class SlowImages(FolderImages):
    """A registry that answers when all have asked that will; it counts who waits."""

    waiting: int = 0
    most_waiting: int = 0
    began: list[str] = field(default_factory=list)

    async def pull(self, reference: str, credential: Credential | None) -> FolderImage:
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)
        self.began.append(reference)
        for _ in range(50):
            await asyncio.sleep(0.001)
        self.waiting -= 1
        return FolderImage([])


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, 1),
        ({"maxParallelImagePulls": 2}, 2),
        ({"serializeImagePulls": False}, 5),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 3}, 3),
    ],
)
def test_so_many_images_are_pulled_at_once(tmp_path: Path, fields: dict[str, Any], most: int) -> None:
    images, names = SlowImages({}), [f"app:{number}" for number in range(5)]
    run(_pull_all(images, tmp_path, names, fields))
    assert (images.most_waiting, sorted(images.began)) == (most, names)


def test_more_pulls_than_a_second_may_have_are_failures(tmp_path: Path) -> None:
    images, names = SlowImages({}), [f"app:{number}" for number in range(4)]
    fields = {"registryPullQPS": 1, "registryBurst": 2, "serializeImagePulls": False}
    failures = run(_pull_all(images, tmp_path, names, fields))
    assert failures == ["pull QPS exceeded"] * 2


async def _pull_all(images: SlowImages, folder: Path, names: Sequence[str], fields: dict[str, Any]) -> list[str]:
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    config = configure({**kind, **fields}).configuration
    pulls = Pulls(images, PullRecords.of(folder, config), config)
    found = await asyncio.gather(*(pulls.pull(name, ()) for name in names), return_exceptions=True)
    return [str(each) for each in found if isinstance(each, PullFailure)]


@pytest.mark.parametrize(
    ("fields", "is_open"),
    [
        ({}, True),
        ({"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}, False),
        (_ALLOWED := {"imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages"}, False),
        ({**_ALLOWED, "preloadedImagesVerificationAllowlist": ["host.example/team/*"]}, True),
        ({**_ALLOWED, "preloadedImagesVerificationAllowlist": ["host.example/team/app"]}, True),
        ({**_ALLOWED, "preloadedImagesVerificationAllowlist": ["host.example/other/*"]}, False),
    ],
)
def test_what_was_here_before_is_for_everybody_or_asked_for(
    tmp_path: Path, fields: dict[str, Any], is_open: bool
) -> None:
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    records = PullRecords.of(tmp_path, configure({**kind, **fields}).configuration)
    assert records.is_open("host.example/team/app:1", "sha256:1") is is_open


def test_a_pull_that_was_begun_counts_after_the_agent_was_killed(tmp_path: Path) -> None:
    policy = "NeverVerifyPreloadedImages"
    PullRecords(tmp_path, policy).begin("app:1")
    again = PullRecords(tmp_path, policy)
    assert not again.is_open("app:1", "sha256:1") and again.is_open("app:2", "sha256:1")
    again.end("app:1", "sha256:1")
    assert PullRecords(tmp_path, policy).is_open("app:1", "sha256:1")


def test_who_shows_many_secrets_and_names_is_asked_again_rather_than_remembered(tmp_path: Path) -> None:
    """A registry that takes every credential and knows an image by every name had made a record grow without end."""
    records = PullRecords(tmp_path, "AlwaysVerify")
    secrets = [HashedSecret("default", f"s{number}", str(number), str(number)) for number in range(150)]
    for secret in secrets:
        records.end("app:1", "sha256:1", secret)
    for number in range(150):
        records.end(f"app{number}:1", "sha256:2")
    for known in (records, PullRecords(tmp_path, "AlwaysVerify")):
        assert known.is_open_to("app:1", "sha256:1", secrets[-1:])
        assert not known.is_open_to("app:1", "sha256:1", secrets[:1])
        assert known.is_open("app149:1", "sha256:2") and not known.is_open("app0:1", "sha256:2")
