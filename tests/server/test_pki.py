"""The certificates of a cluster's own server, as they lie in its folder."""

from __future__ import annotations

import ssl
from pathlib import Path

from fairlead.api.users import User
from fairlead.server.auth.certificates import ensure


def test_a_server_certificate_that_lacks_names_is_made_anew_by_the_same_authority(tmp_path: Path) -> None:
    """An earlier version gave it fewer; clients in pods call the server by the address of its service."""
    pki = ensure(tmp_path)
    authority, first = pki.ca_certificate.read_bytes(), pki.server_certificate.read_bytes()
    earlier = pki.authority.certify_server(User("kube-apiserver"), ["localhost", "127.0.0.1"])
    pki.server_certificate.write_bytes(earlier.certificate)
    pki.server_key.write_bytes(earlier.key)
    ensure(tmp_path)
    renewed = pki.server_certificate.read_bytes()
    assert pki.ca_certificate.read_bytes() == authority
    assert renewed not in (first, earlier.certificate)
    context = ssl.create_default_context(cafile=pki.ca_certificate)
    incoming, outgoing, server = ssl.MemoryBIO(), ssl.MemoryBIO(), pki.context()
    asking = context.wrap_bio(incoming, outgoing, server_hostname="10.0.0.1")
    answering = server.wrap_bio(outgoing, incoming, server_side=True)
    for side in (asking, answering, asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert asking.getpeercert()
    ensure(tmp_path)
    assert pki.server_certificate.read_bytes() == renewed
