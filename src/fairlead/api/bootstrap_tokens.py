"""Bootstrap tokens: Secrets by which a machine that joins a cluster is known for a while.

Sources: k8s.io/cluster-bootstrap, token/api and util (1.36).
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import Final

import msgspec

from fairlead.api.meta import Object
from fairlead.golang import times

SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
NAME_PREFIX: Final = "bootstrap-token-"
USER_PREFIX: Final = "system:bootstrap:"
DEFAULT_GROUP: Final = "system:bootstrappers"
NAMESPACE: Final = "kube-system"

TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapSecret(Object):
    """Such a Secret."""

    type: str = ""
    data: dict[str, str] = msgspec.field(default_factory=dict)

    def value(self, key: str) -> str:
        """The value of a key; "" without one."""
        return base64.b64decode(self.data.get(key) or "").decode("utf-8", "surrogateescape")

    @property
    def expires(self) -> float | None:
        """When it expires (seconds since 1970): long ago if nobody can read when, None if never."""
        text = self.value("expiration")
        if not text:
            return None
        try:
            found = times.seconds(text)
        except times.TimestampError:
            return 0.0
        return datetime.fromisoformat(found).timestamp() if found else 0.0

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The groups of its user, sorted; None if it names one that it may not."""
        extra = self.value("auth-extra-groups")
        named = extra.split(",") if extra else []
        if not all(_GROUP.fullmatch(group) for group in named):
            return None
        return tuple(sorted({DEFAULT_GROUP, *named}))
