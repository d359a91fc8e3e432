"""A certificate that a node asked the cluster for: kept for the next start, renewed before it ends.

Source: client-go `util/certificate/certificate_manager.go` (1.36).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fairlead.agent.certificates.requests import NoCertificate, serving_certificate
from fairlead.api.errors import ApiError
from fairlead.api.verbs import Api
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.identity import Identity

#: How soon it is asked again after a request that was denied, or that nobody could take.
RETRY_SECONDS: Final = 60.0
#: At which part of its time a certificate is renewed, so that not all nodes ask at once.
_EARLIEST, _LATEST = 0.7, 0.9
#: What sleeps knows nothing of a clock that is set.
_LONGEST_SLEEP_SECONDS: Final = 600.0

log = logging.getLogger(__name__)


class KeptCertificate:
    """`ask` is how to get one, `is_meant` tells whether one that is kept is for what it is needed for; `file` holds
    certificate and key, and `what` is what it is called."""

    def __init__(
        self,
        what: str,
        file: Path,
        ask: Callable[[], Awaitable[Identity]],
        is_meant: Callable[[x509.Certificate], bool],
    ) -> None:
        self._what, self._file, self._ask, self._is_meant = what, file, ask, is_meant

    @classmethod
    def serving(cls, api: Api, node: str, hosts: Sequence[str], file: Path) -> KeptCertificate:
        """That of the node's own server, which is reached under these names and addresses."""
        return cls(
            "serving certificate",
            file,
            lambda: serving_certificate(api, node, hosts),
            lambda certificate: _names(certificate) == set(hosts),
        )

    def kept(self) -> Identity | None:
        """That of an earlier start, while it is good."""
        try:
            content = self._file.read_bytes()
            certificate = x509.load_pem_x509_certificate(content)
            load_pem_private_key(content, None)
        except (OSError, ValueError, TypeError):
            return None
        is_good = certificate.not_valid_after_utc.timestamp() > now() and self._is_meant(certificate)
        return Identity(content, content) if is_good else None

    async def first(self) -> Identity:
        """That of an earlier start while it is good; else a new one, once somebody has approved it."""
        kept = self.kept()
        return kept if kept is not None else await self._new()

    async def ask(self) -> Identity:
        """A new one, which is kept. Raises what asking raises."""
        identity = await self._ask()
        _write(self._file, identity)
        return identity

    async def renew(self, current: Identity, changed: Callable[[Identity], None]) -> None:
        """Until cancelled: ask for the next one in time, and tell when it is there."""
        while True:
            certificate = x509.load_pem_x509_certificate(current.certificate)
            begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
            due = begin + (end - begin) * rng.source().uniform(_EARLIEST, _LATEST)
            while (left := due - now()) > 0:  # noqa: ASYNC110  (nobody tells that a clock is set)
                await asyncio.sleep(min(left, _LONGEST_SLEEP_SECONDS))
            current = await self._new()
            changed(current)

    async def _new(self) -> Identity:
        while True:
            try:
                return await self.ask()
            except (NoCertificate, ApiError, OSError) as error:
                log.warning("no %s, asking again in %g s: %s", self._what, RETRY_SECONDS, error)
            await asyncio.sleep(RETRY_SECONDS)


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return set()
    return {str(name.value) for name in found}


def _write(file: Path, identity: Identity) -> None:
    """For nobody else to read, whole or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(identity.certificate + b"\n" + identity.key)
    draft.replace(file)
