"""Who is at the other end of a TLS connection, as a client certificate shows it.

TLS has verified the certificate against the authority; but a connection may outlast it, so its time is looked at for
every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead.api.users import User
from fairlead.caches import LruCache
from fairlead.runtime.clock import now

if TYPE_CHECKING:
    from cryptography import x509

#: How many client certificates are remembered.
_MOST_REMEMBERED: Final = 1024


class _Holder(msgspec.Struct, frozen=True):
    user: User | None
    #: Seconds since 1970.
    begins: float
    ends: float


_NOBODY: Final = _Holder(None, 0, 0)


class TlsPeers:
    """The users of certificates: those that one of these issuers has signed itself, where TLS trusts others as well."""

    def __init__(self, issuers: Sequence[x509.Certificate] = ()) -> None:
        self._issuers = tuple(issuers)
        self._holders: LruCache[bytes, _Holder] = LruCache(_MOST_REMEMBERED)

    def user(self, transport: asyncio.BaseTransport) -> User | None:
        """Whose certificate was shown there; None: nobody's that is valid now."""
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate is None:
            return None
        holder = self._holders.get(certificate)
        if holder is None:
            holder = _holder_of(certificate, self._issuers)
            self._holders.put(certificate, holder)
        return holder.user if holder.begins <= now() <= holder.ends else None


def _holder_of(certificate: bytes, issuers: Sequence[x509.Certificate]) -> _Holder:
    from cryptography import x509  # 8 MB, which a node spares to whom nobody comes

    from fairlead.runtime.authority import user_of

    try:
        found = x509.load_der_x509_certificate(certificate)
        if issuers and not any(_has_signed(issuer, found) for issuer in issuers):
            return _NOBODY
        times = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
        user = user_of(found.subject)
        return _Holder(user, *times)
    except ValueError:  # a subject that TLS does not look at
        return _NOBODY


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
