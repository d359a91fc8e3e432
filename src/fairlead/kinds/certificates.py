"""CertificateSigningRequest: the server records the requester; approval is a subresource.

Source: pkg/apis/certificates/validation, pkg/registry/certificates/certificates (1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds import issued_certificates
from fairlead.kinds.strategy import Strategy
from fairlead.runtime.clock import timestamp

if TYPE_CHECKING:
    from fairlead.api.users import User

#: What an approver says; only its own endpoint may say it.
VERDICTS: Final = ("Approved", "Denied")
_FINAL: Final = (*VERDICTS, "Failed")
_STATUSES: Final = ("False", "True", "Unknown")
_CONDITIONS: Final = "status.conditions"
_SHORTEST_SECONDS: Final = 600
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_DOMAIN_MAX: Final = 253
_SIGNER_MAX: Final = 571
_MALFORMED: Final = "x509: malformed certificate request"
_PEM_HEAD: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_USAGES: Final = frozenset(
    [
        "signing",
        "digital signature",
        "content commitment",
        "key encipherment",
        "key agreement",
        "data encipherment",
        "cert sign",
        "crl sign",
        "encipher only",
        "decipher only",
        "any",
        "server auth",
        "client auth",
        "code signing",
        "email protection",
        "s/mime",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "timestamping",
        "ocsp signing",
        "microsoft sgc",
        "netscape sgc",
    ]
)


class CertificateSigningRequestStrategy(Strategy):
    has_status = True
    selectable = {"spec.signerName": lambda request: str((request.get("spec") or {}).get("signerName", ""))}

    def note_requester(self, obj: Obj, user: User) -> None:
        spec = obj["spec"]
        extra = {key: list(values) for key, values in user.extra}
        said = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
        for key, value in said.items():
            spec.pop(key, None)
            if value:
                spec[key] = value

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        obj["spec"] = old["spec"]

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        if refusal := _refusal(spec.get("request") or ""):
            errors.invalid("spec.request", spec.get("request"), refusal)
        usages = spec.get("usages") or []
        if not usages:
            errors.required("spec.usages")
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                errors.not_supported(f"spec.usages[{index}]", usage, _USAGES)
        for index in _repeated(usages):
            errors.duplicate(f"spec.usages[{index}]", usages[index])
        _validate_signer(spec.get("signerName") or "", "spec.signerName", errors)
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_SECONDS:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.invalid("spec.expirationSeconds", seconds, text)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Neither spec nor status can have changed."""

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        _keep_verdicts(obj, old)
        _date(obj, old)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_conditions(obj, old, errors)
        for kind in VERDICTS:
            if len(_of_type(obj, kind)) > len(_of_type(old, kind)):
                errors.forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
        _validate_certificate(obj, old, errors)


def approved(sent: Obj, old: Obj) -> Obj:
    """The stored request with the conditions that an approver sent; nothing else of it changes."""
    new = old | {"metadata": sent["metadata"], "status": dict(old.get("status") or {})}
    new["status"]["conditions"] = [dict(condition) for condition in _conditions(sent)]
    _date(new, old)
    return new


def validate_approval(obj: Obj, old: Obj, errors: Errors) -> None:
    _validate_conditions(obj, old, errors)


def _validate_conditions(obj: Obj, old: Obj, errors: Errors) -> None:
    conditions = _conditions(obj)
    verdicts: set[str] = set()
    repeated = set(_repeated([condition["type"] for condition in conditions]))
    for index, condition in enumerate(conditions):
        path, kind, status = f"{_CONDITIONS}[{index}]", condition["type"], condition.get("status")
        if not kind:
            errors.required(f"{path}.type")
        allowed = ("True",) if kind in _FINAL else _STATUSES
        if not status:
            errors.required(f"{path}.status")
        elif status not in allowed:
            errors.not_supported(f"{path}.status", status, allowed)
        if kind in VERDICTS:
            if verdicts - {kind}:
                errors.invalid(f"{path}.type", kind, "Approved and Denied conditions are mutually exclusive")
            verdicts.add(kind)
        if index in repeated:
            errors.duplicate(f"{path}.type", kind)
    for kind in _FINAL:
        if len(_of_type(obj, kind)) < len(_of_type(old, kind)):
            errors.forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')


def _validate_certificate(obj: Obj, old: Obj, errors: Errors) -> None:
    """It is given once; what it was before that rule stays."""
    was, certificate = (str((either.get("status") or {}).get("certificate") or "") for either in (old, obj))
    if was == certificate:
        return
    if was:
        errors.forbidden("status.certificate", "updates may not modify existing certificate content")
    elif refusal := issued_certificates.refusal(certificate):
        errors.invalid("status.certificate", "<certificate data>", refusal)


def _conditions(obj: Obj) -> list[Obj]:
    found: list[Obj] = (obj.get("status") or {}).get("conditions") or []
    return found


def _of_type(obj: Obj, kind: str) -> list[int]:
    return [index for index, condition in enumerate(_conditions(obj)) if condition["type"] == kind]


def _keep_verdicts(obj: Obj, old: Obj) -> None:
    """Restore the old conditions of a type whose number has not changed."""
    for kind in VERDICTS:
        new, was = _of_type(obj, kind), _of_type(old, kind)
        if len(new) == len(was):
            for index, old_index in zip(new, was, strict=True):
                _conditions(obj)[index] = _conditions(old)[old_index]


def _date(obj: Obj, old: Obj) -> None:
    """Fill in the times that were left out; a status that is as before has changed when it did before."""
    moments = {
        (condition["type"], condition.get("status")): condition.get("lastTransitionTime")
        for condition in reversed(_conditions(old))
    }
    for condition in _conditions(obj):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or timestamp()
        changed = condition.get("lastTransitionTime") or moments.get((condition["type"], condition.get("status")))
        condition["lastTransitionTime"] = changed or timestamp()


def _repeated(values: Iterable[str]) -> list[int]:
    """The places of what was there before."""
    seen: set[str] = set()
    found = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(index)
        seen.add(value)
    return found


def _refusal(request: str) -> str:
    """What is wrong with a PEM-encoded PKCS#10 request; whoever asks must hold the key."""
    try:
        found = _parsed(request)
    except ValueError as error:
        return str(error)
    try:
        is_signed = found.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        return _MALFORMED
    return "" if is_signed else "x509: the signature of the certificate request is not valid"


def _parsed(request: str) -> x509.CertificateSigningRequest:
    """ValueError: nobody could read it."""
    pem = base64.b64decode(request)
    if _PEM_HEAD not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        found = x509.load_pem_x509_csr(pem)
        _ = found.subject, found.extensions, found.public_key()  # what nobody can read is refused here and now
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(_MALFORMED) from None
    return found


def requested_name(request: Obj) -> str:
    """For whom a certificate is asked: the common name of its subject. ValueError: nobody could read the request."""
    parts = _parsed(request["spec"].get("request", "")).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(parts[-1].value) if parts else ""


def organizations(request: Obj) -> list[str]:
    """The groups that a valid certificate request asks for: the organizations of its subject."""
    found = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    return [str(part.value) for part in found.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)]


def _validate_signer(name: str, path: str, errors: Errors) -> None:
    """`example.com/signer-name`."""
    if not name:
        errors.required(path)
        return
    if name == _LEGACY_SIGNER:
        errors.invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.invalid(path, name, text)
        return
    domain, _, rest = name.partition("/")
    if len(domain) > _DOMAIN_MAX:
        errors.too_long(path, _DOMAIN_MAX)
    _validate_labels(domain, names.dns1123_label, path, errors)
    if "." not in domain:
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    _validate_labels(rest, names.dns1123_subdomain, path, errors)
    if len(name) > _SIGNER_MAX:
        errors.too_long(path, _SIGNER_MAX)


def _validate_labels(text: str, rule: names.Rule, path: str, errors: Errors) -> None:
    """The first invalid label; upstream reports no others."""
    for label in text.split("."):
        if wrong := rule(label):
            for reason in wrong:
                errors.invalid(path, text, f'validating label "{label}": {reason}')
            return
