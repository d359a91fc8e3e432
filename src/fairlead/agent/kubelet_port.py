"""Where a node answers as a kubelet does, and as whom: what its configuration says of its port and certificates."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.authority import Identity
from fairlead.runtime.http.listener import bind


@dataclass(frozen=True, slots=True)
class Serving:
    sock: socket.socket
    identity: Identity
    #: Who signs for clients.
    client_ca: bytes


def serving_of(config: KubeletConfiguration, address: str) -> Serving | None:
    """None without `tlsCertFile`, `tlsPrivateKeyFile` and `clientCAFile`: then nobody is answered."""
    files = (config.tls_cert_file, config.tls_private_key_file, config.client_ca_file)
    if not config.enable_server or not all(files):
        return None
    certificate, key, client_ca = (Path(file).read_bytes() for file in files)
    return Serving(bind(config.port, address), Identity(certificate, key), client_ca)
