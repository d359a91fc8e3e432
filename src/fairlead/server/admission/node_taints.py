"""TaintNodesByCondition: a new node is tainted not-ready until it reports that it is ready.

Otherwise the scheduler could bind pods to a node in the moment between its creation and its first heartbeat.
Source: plugin/pkg/admission/nodetaint. The node lifecycle controller lifts the taint.
"""

from __future__ import annotations

from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes

_KEY, _EFFECT = "node.kubernetes.io/not-ready", "NoSchedule"


class TaintNodesByCondition(AdmissionPlugin):
    name = "TaintNodesByCondition"
    resources = frozenset({"nodes"})
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        taints = attributes.spec.setdefault("taints", [])
        if not any(taint.get("key") == _KEY and taint.get("effect") == _EFFECT for taint in taints):
            taints.append({"key": _KEY, "effect": _EFFECT})
