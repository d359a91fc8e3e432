"""How our listeners speak TLS: as Go's servers do by default, and of TLS 1.2 only the suites that authenticate."""

from __future__ import annotations

import ssl

#: Forward secrecy and AEAD. Those of TLS 1.3 are all like that, and not chosen here.
TLS_1_2_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"


def server_context() -> ssl.SSLContext:
    """Without a certificate yet; clients need not show one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(TLS_1_2_SUITES)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
