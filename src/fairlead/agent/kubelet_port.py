"""Where a node answers as a kubelet does, and as whom: what its configuration says of its port and certificates.

With `serverTLSBootstrap` and no files the node asks the cluster for a certificate.
"""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.http.listener import reserve
from fairlead.runtime.identity import Identity


class Serving(msgspec.Struct, frozen=True):
    sock: socket.socket
    #: None: the cluster is asked.
    identity: Identity | None
    #: Who signs for clients.
    client_ca: bytes


def serving_of(config: KubeletConfiguration, address: str) -> Serving | None:
    """None without a certificate or `clientCAFile`: then nobody is answered."""
    files = (config.tls_cert_file, config.tls_private_key_file)
    if not config.enable_server or not config.client_ca_file or not (all(files) or config.server_tls_bootstrap):
        return None
    identity = Identity(*(Path(file).read_bytes() for file in files)) if all(files) else None
    return Serving(reserve(config.port, address), identity, Path(config.client_ca_file).read_bytes())
