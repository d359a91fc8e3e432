"""The serving certificate of a node that asked the cluster for it: kept for the next start, renewed before it ends.

Source: client-go `util/certificate/certificate_manager.go` (1.36).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fairlead.agent.kubelet_api.serving_certificate import NoCertificate, serving_certificate
from fairlead.api.errors import ApiError
from fairlead.api.verbs import Api
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.identity import Identity

#: How soon it is asked again after a request that was denied, or that nobody could take.
RETRY_SECONDS: Final = 60.0
#: At which part of its time a certificate is renewed, so that not all nodes ask at once.
_EARLIEST, _LATEST = 0.7, 0.9

log = logging.getLogger(__name__)


class KeptCertificate:
    """`hosts` are the names and addresses under which the node is reached; `file` holds certificate and key."""

    def __init__(self, api: Api, node: str, hosts: Sequence[str], file: Path) -> None:
        self._api, self._node, self._hosts, self._file = api, node, hosts, file

    async def first(self) -> Identity:
        """That of an earlier start while it is good; else a new one, once somebody has approved it."""
        kept = _read(self._file, self._hosts)
        return kept if kept is not None else await self._new()

    async def renew(self, current: Identity, changed: Callable[[Identity], None]) -> None:
        """Until cancelled: ask for the next one in time, and tell when it is there."""
        while True:
            certificate = x509.load_pem_x509_certificate(current.certificate)
            begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
            due = begin + (end - begin) * rng.source().uniform(_EARLIEST, _LATEST)
            await asyncio.sleep(max(due - now(), 0.0))
            current = await self._new()
            changed(current)

    async def _new(self) -> Identity:
        while True:
            try:
                identity = await serving_certificate(self._api, self._node, self._hosts)
                _write(self._file, identity)
                return identity
            except (NoCertificate, ApiError, OSError) as error:
                log.warning("no serving certificate, asking again in %g s: %s", RETRY_SECONDS, error)
            await asyncio.sleep(RETRY_SECONDS)


def _read(file: Path, hosts: Sequence[str]) -> Identity | None:
    """What is kept, if it is good still, and for these hosts."""
    try:
        content = file.read_bytes()
        certificate = x509.load_pem_x509_certificate(content)
        load_pem_private_key(content, None)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    if certificate.not_valid_after_utc.timestamp() <= now() or {str(name.value) for name in names} != set(hosts):
        return None
    return Identity(content, content)


def _write(file: Path, identity: Identity) -> None:
    """For nobody else to read, whole or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(identity.certificate + b"\n" + identity.key)
    draft.replace(file)
