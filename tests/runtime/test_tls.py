"""How our listeners speak TLS."""

from __future__ import annotations

import ssl

from fairlead.runtime.tls import server_context


def test_every_suite_authenticates_what_it_encrypts() -> None:
    context = server_context()
    assert all(suite["aead"] for suite in context.get_ciphers())
    assert {suite["protocol"] for suite in context.get_ciphers()} == {"TLSv1.2", "TLSv1.3"}
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
