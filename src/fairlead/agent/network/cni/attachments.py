"""What is known of every attachment is on disk before its first plugin is called.

An agent that is killed in the middle of ADD would leave an address that is leased to nobody, and after some hundred of
them no pod would get one. The next start finds the file and has everything that DEL needs: the network as it was then,
and the result, if there was one already.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.agent.network.cni.configuration import BadConfiguration, Conflist, parse
from fairlead.agent.network.cni.plugins import Target
from fairlead.agent.network_seam import HostPort
from fairlead.runtime.whole_files import replace_durably

#: Container ids as the specification has them; they become names of files.
_ID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,250}")

log = logging.getLogger(__name__)


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    container_id: str
    namespace: str
    name: str
    uid: str
    netns: str
    host_ports: tuple[HostPort, ...]
    network: Conflist
    #: None until the last plugin has answered.
    result: dict[str, Any] | None = None
    #: The container runtime has attached it, and will detach it.
    is_runtimes: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """Those of the pod, without their prefixes, IPv4 first."""
        entries = (self.result or {}).get("ips") or ()
        found = [str(entry["address"]).partition("/")[0] for entry in entries]
        return tuple(sorted(found, key=lambda address: ":" in address))

    @property
    def ipv4(self) -> str | None:
        try:
            return str(IPv4Address(self.addresses[0]))
        except (IndexError, AddressValueError):
            return None

    @property
    def target(self) -> Target:
        arguments = {
            "IgnoreUnknown": "1",
            "K8S_POD_NAMESPACE": self.namespace,
            "K8S_POD_NAME": self.name,
            "K8S_POD_INFRA_CONTAINER_ID": self.container_id,
            "K8S_POD_UID": self.uid,
        }
        mappings = [
            {"hostPort": port.host_port, "containerPort": port.container_port, "protocol": port.protocol.lower()}
            | ({"hostIP": port.host_ip} if port.host_ip else {})
            for port in self.host_ports
        ]
        return Target(self.container_id, self.netns, arguments, {"portMappings": mappings})


class Attachments:
    """Those of this node, by container id; a dict and its files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._known: dict[str, Attachment] = {}
        for path in sorted(folder.glob("*.json")):
            if (found := _read(path)) is not None:
                self._known[found.container_id] = found

    def __iter__(self) -> Iterator[Attachment]:
        return iter(list(self._known.values()))

    def get(self, container_id: str) -> Attachment | None:
        return self._known.get(container_id)

    def put(self, attachment: Attachment) -> None:
        """Durable when it returns: what is in memory only is lost with the machine, and so are the leases' owners."""
        if _ID.fullmatch(attachment.container_id) is None:
            raise ValueError(f"{attachment.container_id!r} is no id of a container")
        replace_durably(self._path(attachment.container_id), json.dumps(_written(attachment)).encode())
        self._known[attachment.container_id] = attachment

    def remove(self, container_id: str) -> None:
        self._known.pop(container_id, None)
        if _ID.fullmatch(container_id) is not None:
            self._path(container_id).unlink(missing_ok=True)

    def _path(self, container_id: str) -> Path:
        return self._folder / f"{container_id}.json"


def _written(attachment: Attachment) -> dict[str, Any]:
    plain = ("container_id", "namespace", "name", "uid", "netns", "result", "is_runtimes")
    return {field: getattr(attachment, field) for field in plain} | {
        "host_ports": [port._asdict() for port in attachment.host_ports],
        "network": attachment.network.to_json(),
    }


def _read(path: Path) -> Attachment | None:
    try:
        found = json.loads(path.read_text())
        ports = tuple(HostPort(**port) for port in found.pop("host_ports"))
        attachment = Attachment(host_ports=ports, network=parse(found.pop("network")), **found)
        return replace(attachment, container_id=path.stem)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, BadConfiguration) as error:
        log.warning("%s cannot be read and is left alone: %s", path, error)
        return None
