"""Where a node answers as a kubelet does, and as whom: what its configuration says of its port and certificates.

With `serverTLSBootstrap` and no files the node asks the cluster for a certificate. Where a kubelet listens at every
address of the machine, this one does at the node's.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.kubelet_api.rules import ServingRules
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.http.listener import reserve
from fairlead.runtime.identity import Identity

#: A kubelet listens at all addresses of the machine then.
_EVERYWHERE: Final = ("0.0.0.0", "::")


class Serving(msgspec.Struct, frozen=True):
    sock: socket.socket
    #: None: the cluster is asked.
    identity: Identity | None
    #: Who signs for clients.
    client_ca: bytes
    rules: ServingRules


def serving_of(config: KubeletConfiguration, address: str) -> Serving | None:
    """None without a certificate or `clientCAFile`: then nobody is answered. StartupError for rules that are none."""
    files = (config.tls_cert_file, config.tls_private_key_file)
    if not config.enable_server or not config.client_ca_file or not (all(files) or config.server_tls_bootstrap):
        return None
    identity = Identity(*(Path(file).read_bytes() for file in files)) if all(files) else None
    try:
        rules = ServingRules.of(config)
    except ValueError as problem:
        raise StartupError(Stage.START, str(problem)) from None
    client_ca = Path(config.client_ca_file).read_bytes()
    where = address if config.address in _EVERYWHERE else config.address
    return Serving(reserve(config.port, where), identity, client_ca, rules)
