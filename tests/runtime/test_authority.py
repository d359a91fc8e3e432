"""Certificates that we sign, as strangers check them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from fairlead.api.users import User
from fairlead.runtime.authority import Authority
from fairlead.runtime.identity import Identity


def _context(protocol: int, folder: Path, identity: Identity, authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    pem = folder / "identity.pem"
    pem.write_bytes(identity.certificate + identity.key)
    context.load_cert_chain(pem)
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "api.example.com"])
def test_both_sides_believe_each_other_as_strictly_as_python_asks_since_3_13(tmp_path: Path, host: str) -> None:
    """Since then `ssl.create_default_context`, which clients use, wants of a chain all that RFC 5280 does."""
    authority = Authority.make("fairlead-ca")
    served = authority.certify_server(User("kube-apiserver"), ["127.0.0.1", "api.example.com"])
    ours = _context(ssl.PROTOCOL_TLS_SERVER, tmp_path, served, authority)
    theirs = _context(ssl.PROTOCOL_TLS_CLIENT, tmp_path, authority.identify(User("jane", ("team",))), authority)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(to_client, to_server, server_hostname=host)
    server = ours.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    shown = server.getpeercert()
    assert shown is not None and (("commonName", "jane"),) in shown["subject"]
