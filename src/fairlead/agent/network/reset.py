"""Removes everything that this package has made on the machine, and nothing else: attachments, bridge, routes, tables.

It needs no API server and no running agent. Whoever runs it has stopped the containers.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from fairlead.agent.network import machine, routes
from fairlead.agent.network.cni.attachments import Attachments
from fairlead.agent.network.cni.plugins import PluginFailed, Plugins
from fairlead.agent.network.commands import CommandFailed, run
from fairlead.agent.network.nftables.base import IPV6_TABLE
from fairlead.agent.network.nftables.table import TABLE
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.trees import remove_tree

log = logging.getLogger(__name__)


async def reset(settings: NetworkSettings) -> None:
    """What cannot be removed is said, and the rest is removed all the same."""
    if not settings.root.exists():
        return  # nothing was ever made for this root
    plugins = Plugins(settings.plugin_folders)
    for attachment in Attachments(settings.root / "attachments"):
        if attachment.is_runtimes:
            continue
        try:
            await plugins.delete(attachment.network, attachment.target, attachment.result)
        except PluginFailed as failure:
            log.warning("pod %s/%s: %s", attachment.namespace, attachment.name, failure)
    if machine.was_prepared(settings.root):
        await routes.remove_routes()
        await machine.remove_bridge(settings.bridge)
        for table in (TABLE, IPV6_TABLE):
            with suppress(CommandFailed):  # it is not there
                await run("nft", "delete", "table", *table.split())
        machine.restore(settings.root)
    remove_tree(settings.root)
