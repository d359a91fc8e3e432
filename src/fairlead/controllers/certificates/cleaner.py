"""Old certificate signing requests go away (pkg/controller/certificates/cleaner, 1.36)."""

from __future__ import annotations

import base64
from typing import Final

from cryptography import x509

from fairlead.api.certificates import APPROVED, DENIED, FAILED, CertificateSigningRequest
from fairlead.controllers.actions import Actions, Delete, Requeue
from fairlead.controllers.base import Controller, World
from fairlead.controllers.kinds import CERTIFICATE_REQUESTS
from fairlead.runtime.clock import parse_timestamp

_HOUR: Final = 3_600.0
#: How long a request stays after its last condition; one without an answer stays for a day.
_ANSWERED_SECONDS: Final = _HOUR
_PENDING_SECONDS: Final = 24 * _HOUR


class OldRequests(Controller[CertificateSigningRequest]):
    name = "certificatesigningrequest-cleaner-controller"
    account = "certificate-controller"
    kind = CERTIFICATE_REQUESTS

    def reconcile(self, obj: CertificateSigningRequest, world: World) -> Actions:
        end = _end(obj)
        if end is None or obj.metadata.is_terminating:
            return
        if end > world.now:
            yield Requeue(end - world.now)
        else:
            yield Delete(CERTIFICATE_REQUESTS, obj)


def _end(obj: CertificateSigningRequest) -> float | None:
    """When the request has been there long enough (seconds since 1970); None: never."""
    if not obj.status.conditions:
        return parse_timestamp(obj.metadata.creation_timestamp or "") + _PENDING_SECONDS
    ends = []
    for type_ in (APPROVED, DENIED, FAILED):
        condition = obj.condition(type_)
        is_answered = condition is not None and (type_ != APPROVED or bool(obj.status.certificate))
        if condition is not None and is_answered and condition.last_update_time:
            ends.append(parse_timestamp(condition.last_update_time) + _ANSWERED_SECONDS)
    if obj.status.certificate and obj.condition(APPROVED):
        ends += _expiry(obj.status.certificate)
    return min(ends, default=None)


def _expiry(certificate: str) -> list[float]:
    """When the certificate ends; nothing for what cannot be read, which stays as long as any answered request."""
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    except ValueError:
        return []
    return [found.not_valid_after_utc.timestamp()]
