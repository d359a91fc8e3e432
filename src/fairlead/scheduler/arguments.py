"""Arguments of plugins, as a KubeSchedulerConfiguration gives them."""

from __future__ import annotations

from fairlead.api.strict import Strict


class Arguments(Strict):
    """Base of a plugin's arguments: what every `args` may hold."""

    api_version: str = ""
    kind: str = ""
