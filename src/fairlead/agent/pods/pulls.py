"""How pods come by images: one after the other unless the node may pull several at once, and within its limit.

Each credential of a pod's pull secrets that is for the image is tried, and nobody's where there is none.
Source: pkg/kubelet/images/{image_manager,puller,helpers}.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from hashlib import sha256
from typing import NamedTuple

import msgspec

from fairlead.agent.images.credentials import Credential, keyring
from fairlead.agent.images.errors import InvalidReference
from fairlead.agent.images.references import Reference, parse
from fairlead.agent.images_seam import Image, Images, PullFailure
from fairlead.agent.pods.pull_records import HashedSecret, PullRecords
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.clock import monotonic
from fairlead.runtime.token_bucket import TokenBucket


class PullSecret(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    data: Mapping[str, bytes]


class Pulled(NamedTuple):
    image: Image
    #: How long it took, and with the wait for others.
    seconds: float
    waited_seconds: float


class Pulls:
    def __init__(self, images: Images, records: PullRecords, config: KubeletConfiguration) -> None:
        self.images, self._records = images, records
        at_once = 1 if config.serialize_image_pulls else config.max_parallel_image_pulls
        self._turns: AbstractAsyncContextManager[None] = nullcontext() if not at_once else asyncio.Semaphore(at_once)
        per_second = config.registry_pull_qps
        self._limit = TokenBucket(per_second, config.registry_burst, monotonic()) if per_second > 0 else None

    def is_open(self, reference: str, image: Image) -> bool:
        """Whether every pod here may have that image by that name."""
        return self._records.is_open(reference, image.id)

    async def is_open_to(self, reference: str, image: Image, secrets: Sequence[PullSecret]) -> bool:
        """Whether who has these secrets may have it, as far as is known without asking a registry."""
        try:
            shown = [_hashed(secret, each) for each, secret in await self._credentials(reference, secrets)]
        except (InvalidReference, ValueError):
            shown = []
        return self._records.is_open_to(reference, image.id, shown)

    async def pull(self, reference: str, secrets: Sequence[PullSecret]) -> Pulled:
        """PullFailure says why not."""
        began = monotonic()
        async with self._turns:
            if self._limit is not None and not self._limit.take(monotonic()):
                raise PullFailure("pull QPS exceeded")
            alone = monotonic()
            await asyncio.to_thread(self._records.begin, reference)
            image, shown = None, None
            try:
                image, shown = await self._pull(reference, secrets)
            finally:
                await asyncio.to_thread(self._records.end, reference, image.id if image is not None else "", shown)
        return Pulled(image, monotonic() - alone, monotonic() - began)

    def forget(self, kept: Sequence[str]) -> None:
        """Of all images but these nothing has to be known any more."""
        self._records.forget(kept)

    async def _pull(self, reference: str, secrets: Sequence[PullSecret]) -> tuple[Image, HashedSecret | None]:
        try:
            credentials = await self._credentials(reference, secrets)
        except (InvalidReference, ValueError) as error:
            raise PullFailure(str(error)) from None
        if not credentials:
            return await self.images.pull(reference, None), None
        problems = []
        for credential, secret in credentials:
            try:
                return await self.images.pull(reference, credential), _hashed(secret, credential)
            except PullFailure as failure:
                problems.append(str(failure))
        different = list(dict.fromkeys(problems))
        raise PullFailure(different[0] if len(different) == 1 else f"[{', '.join(different)}]")

    async def _credentials(self, reference: str, secrets: Sequence[PullSecret]) -> list[tuple[Credential, PullSecret]]:
        """Those that are for the image, in the order in which they are tried, and whose they are."""
        wanted = parse(self.images.source_of(reference))
        return await asyncio.to_thread(_fitting, wanted, secrets)  # a secret may have a megabyte, and a pod many


def _fitting(wanted: Reference, secrets: Sequence[PullSecret]) -> list[tuple[Credential, PullSecret]]:
    owners: dict[Credential, PullSecret] = {}
    for secret in secrets:
        for each in keyring(*_documents([secret])).lookup(wanted):
            owners.setdefault(each, secret)
    return [(each, owners[each]) for each in keyring(*_documents(secrets)).lookup(wanted)]


def _documents(secrets: Sequence[PullSecret]) -> tuple[list[bytes], list[bytes]]:
    names = (".dockerconfigjson", ".dockercfg")
    current, legacy = ([secret.data[name] for secret in secrets if name in secret.data] for name in names)
    return current, legacy


def _hashed(secret: PullSecret, credential: Credential) -> HashedSecret:
    digest = sha256(msgspec.json.encode([credential.username, credential.password])).hexdigest()
    return HashedSecret(secret.namespace, secret.name, secret.uid, digest)
