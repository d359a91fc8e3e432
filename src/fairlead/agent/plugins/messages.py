"""What a plugin says of itself, and is told.

Source: k8s.io/kubelet `pkg/apis/pluginregistration/v1/api.proto` (1.36).
"""

from __future__ import annotations

from typing import Annotated, Final

from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import Message


class PluginInfo(Message, frozen=True):
    type: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""
    endpoint: Annotated[str, 3] = ""
    supported_versions: Annotated[list[str], 4] = []


class RegistrationStatus(Message, frozen=True):
    plugin_registered: Annotated[bool, 1] = False
    error: Annotated[str, 2] = ""


GET_INFO: Final = Method("/pluginregistration.Registration/GetInfo", Nothing, PluginInfo)
NOTIFY: Final = Method("/pluginregistration.Registration/NotifyRegistrationStatus", RegistrationStatus, Nothing)
