"""TLS settings of our listeners: Go's defaults, and of TLS 1.2 only suites with authenticated encryption."""

from __future__ import annotations

import ssl

#: Forward secrecy and AEAD. All suites of TLS 1.3 have both and need no list.
TLS_1_2_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"


def server_context() -> ssl.SSLContext:
    """A context without a certificate yet; client certificates are optional."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(TLS_1_2_SUITES)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
