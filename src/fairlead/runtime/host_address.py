"""Where others find this machine."""

from __future__ import annotations

import socket


def host_address() -> str:
    """The address that the machine shows to others: that of its default route, else its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
