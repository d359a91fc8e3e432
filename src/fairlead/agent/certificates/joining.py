"""How a machine joins a cluster: it shows a bootstrap token, asks for a certificate of its own, and keeps it.

Source: pkg/kubelet/certificate/bootstrap/bootstrap.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from cryptography import x509
from msgspec.structs import replace

from fairlead.agent.certificates.kept import KeptCertificate
from fairlead.agent.certificates.requests import NoCertificate, client_certificate
from fairlead.api.errors import ApiError, Forbidden, Invalid, Unauthorized
from fairlead.api.verbs import Api
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime.authority import user_of
from fairlead.runtime.identity import Identity

#: How soon it is tried again where no API server answers.
RETRY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


async def joined(access: Access, token: str, node: str, file: Path) -> Access:
    """The way into the cluster of `access` as this node, by the certificate in `file`. If none is there that is
    good, one is asked for with the token, and waited for until it is approved.

    NoCertificate: the cluster gives this node none; the message says why.
    """
    async with HttpApi(_nobody(access, token), user_agent="fairlead-node") as api:
        kept = _kept(api, node, file)
        identity = kept.kept()
        while identity is None:
            try:
                identity = await kept.ask()
            except (Unauthorized, Forbidden, Invalid) as refusal:
                raise NoCertificate(str(refusal)) from None
            except (ApiError, ConnectionError) as error:
                log.warning("no client certificate, asking again in %g s: %s", RETRY_SECONDS, error)
                await asyncio.sleep(RETRY_SECONDS)
    return replace(_nobody(access), client_certificate=identity.certificate, client_key=identity.key)


async def renewed(api: HttpApi, access: Access, node: str, file: Path) -> None:
    """Until cancelled: the certificate of `access` is followed by another in time, which `api` shows then."""
    assert access.client_certificate is not None and access.client_key is not None
    current = Identity(access.client_certificate, access.client_key)
    await _kept(api, node, file).renew(current, api.show)


def _kept(api: Api, node: str, file: Path) -> KeptCertificate:
    """`api` is who asks."""
    return KeptCertificate(
        "client certificate",
        file,
        lambda: client_certificate(api, node),
        lambda certificate: _is_of(certificate, node),
    )


def _is_of(certificate: x509.Certificate, node: str) -> bool:
    user = user_of(certificate.subject)
    return user is not None and user.name == f"system:node:{node}"


def _nobody(access: Access, token: str = "") -> Access:
    return replace(access, token=token, token_file=None, client_certificate=None, client_key=None)
