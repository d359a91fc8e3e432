"""Pod specs that were judged before: thousands of pods come from few templates, and what holds for one holds for all.

The token volume that admission adds has a random name in each pod. It is left out of the comparison, where it is the
only one: then two specs are the same but for one name that is right in both.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead.api.encoded import encode, key_start_bytes
from fairlead.api.objects import Obj, metadata
from fairlead.caches import LruCache

#: Specs that were not seen for longest are forgotten beyond this number, and large ones are not remembered at all.
REMEMBERED: Final = 512
LARGEST_BYTES: Final = 16_384

#: What is in the name of every annotation that rules or warnings about the spec know; others say nothing about it,
#: nor do kubectl's own, such as the configuration that it applied last.
_JUDGED_ANNOTATION: Final = "kubernetes.io/"
_KUBECTL_ANNOTATION: Final = "kubectl.kubernetes.io/"
#: Containers that are put into a running pod, and claims that go by its name.
_EPHEMERAL: Final = key_start_bytes("ephemeral")
_TOKEN_VOLUMES: Final = re.compile(rb"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}(?=\")")


class KnownSpecs:
    """The specs that break no rule, each with the warnings that it deserves."""

    def __init__(self) -> None:
        self._warnings: LruCache[bytes, tuple[str, ...]] = LruCache(REMEMBERED)

    @staticmethod
    def key(pod: Obj) -> bytes | None:
        """What decides about the spec; None where more than the spec does."""
        for key in metadata(pod).get("annotations") or ():
            if _JUDGED_ANNOTATION in key and not key.startswith(_KUBECTL_ANNOTATION):
                return None
        spec = encode(pod["spec"])
        if len(spec) > LARGEST_BYTES or _EPHEMERAL in spec:
            return None
        if len(set(_TOKEN_VOLUMES.findall(spec))) == 1:
            return _TOKEN_VOLUMES.sub(b"\0", spec)  # which no JSON holds: a name that somebody left empty is another
        return spec

    def find(self, key: bytes | None) -> tuple[str, ...] | None:
        """The warnings about a spec that breaks no rule; None if that is not known."""
        return self._warnings.get(key) if key is not None else None

    def add(self, key: bytes | None, warnings: tuple[str, ...]) -> None:
        """It breaks no rule."""
        if key is not None:
            self._warnings.put(key, warnings)
