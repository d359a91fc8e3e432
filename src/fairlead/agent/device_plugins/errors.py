"""What goes wrong with device plugins."""

from __future__ import annotations


class DevicePluginError(Exception):
    """Devices cannot be had, or not be made ready; the text says why, in a kubelet's words."""
