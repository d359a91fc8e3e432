"""TLS settings of our listeners: Go's defaults, and of TLS 1.2 only suites with authenticated encryption."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final

#: Forward secrecy and AEAD. All suites of TLS 1.3 have both and need no list.
TLS_1_2_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"


#: By Go's names, those of OpenSSL. What has neither forward secrecy nor a name here is not there.
_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{cipher}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for cipher, name in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
#: Always there, and not to be chosen from.
_TLS_1_3_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # no older one is spoken
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def minimum_version(name: str) -> ssl.TLSVersion:
    """By Go's name; ValueError for none."""
    if name not in _VERSIONS:
        raise ValueError(f'unknown tls version "{name}"')
    return _VERSIONS[name]


def suites(names: Iterable[str]) -> str:
    """Those of TLS 1.2 in OpenSSL's words, by Go's names; ValueError for one that is not there."""
    found = []
    for name in names:
        if name not in _SUITES and name not in _TLS_1_3_SUITES:
            raise ValueError(f"Cipher suite {name} not supported or doesn't exist")
        found.append(_SUITES.get(name, ""))
    return ":".join(dict.fromkeys(filter(None, found)))


def server_context(
    least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2, tls_1_2_suites: str = TLS_1_2_SUITES
) -> ssl.SSLContext:
    """A context without a certificate yet; client certificates are optional."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = least
    context.set_ciphers(tls_1_2_suites)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
