"""What containerd says of its own configuration, which CRI has no fields for. Others say nothing, and need not."""

from __future__ import annotations

import msgspec

from fairlead.agent.grpc.client import Client
from fairlead.agent.runtimes.cri import messages as cri


class Cni(msgspec.Struct, rename="camel"):
    #: Where it looks for networks.
    conf_dir: str = ""


class Configuration(msgspec.Struct, rename="camel"):
    cni: Cni = msgspec.field(default_factory=Cni)
    #: What sandboxes are made of.
    sandbox_image: str = ""


async def configuration(client: Client) -> Configuration:
    info = (await client.call(cri.STATUS, cri.StatusRequest(verbose=True))).info
    try:
        return msgspec.json.decode(info.get("config", "{}"), type=Configuration)
    except msgspec.DecodeError:
        return Configuration()
