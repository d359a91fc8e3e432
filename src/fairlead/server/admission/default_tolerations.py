"""DefaultTolerationSeconds: a pod stays five minutes on a node that went silent, unless it says otherwise.

Without these tolerations a short network outage would throw every pod off its node at once.
Source: plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.objects import Obj
from fairlead.server.admission.base import AdmissionPlugin, Attributes

#: The NoExecute taints of a silent node, in the order in which their tolerations are added.
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


class DefaultTolerationSeconds(AdmissionPlugin):
    name = "DefaultTolerationSeconds"
    resources = frozenset({"pods"})

    async def admit(self, attributes: Attributes) -> None:
        spec = attributes.spec
        tolerations = spec.get("tolerations") or ()
        missing = [taint for taint in _TAINTS if not _mentions(tolerations, taint)]
        if missing:
            spec["tolerations"] = [*tolerations, *map(_toleration, missing)]


def _mentions(tolerations: Iterable[Obj], key: str) -> bool:
    """Whether the pod already says something about NoExecute taints of this key; an absent key or effect means all."""
    return any(t.get("key", "") in ("", key) and t.get("effect", "") in ("", "NoExecute") for t in tolerations)


def _toleration(key: str) -> Obj:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
