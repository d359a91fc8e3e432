"""The downward API: what a pod may know of itself.

Sources: pkg/fieldpath, pkg/api/v1/resource (ExtractContainerResourceValue).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.golang.quoting import go_quote

#: What a container without a limit may take as much of as the node gives away; huge pages are not among it.
_OVERCOMMITTED: Final = ("cpu", "memory", "ephemeral-storage")
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class DownwardApi(msgspec.Struct, frozen=True):
    """`manifest` is the pod; resources without a limit are those of the node."""

    manifest: Obj
    node_name: str
    host_ip: str
    pod_ip: str
    node_allocatable: Mapping[str, Quantity]

    def field(self, path: str) -> str:
        meta, spec = self.manifest["metadata"], self.manifest["spec"]
        if (keyed := _KEYED.fullmatch(path)) is not None:
            return str((meta.get(keyed[1]) or {}).get(keyed[2], ""))
        values = {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "metadata.labels": _listed(meta.get("labels") or {}),
            "metadata.annotations": _listed(meta.get("annotations") or {}),
            "spec.nodeName": self.node_name,
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.hostIP": self.host_ip,
            "status.hostIPs": self.host_ip,
            "status.podIP": self.pod_ip,
            "status.podIPs": self.pod_ip,
        }
        return str(values[path])  # validation knows the same paths

    def resource(self, reference: Obj, container: Obj) -> str:
        """In units of the divisor, rounded up."""
        kind, _, name = reference["resource"].partition(".")
        resources = container.get("resources") or {}
        amount = parse((resources.get(kind) or {}).get(name, "0"))
        if kind == "limits" and name in _OVERCOMMITTED and not amount:  # a limit of 0 is none
            amount = self.node_allocatable.get(name, ZERO)
        divisor = parse(reference.get("divisor") or "0")
        if not divisor:
            divisor = parse("1")
        return str(-(-amount.nanos // divisor.nanos))


def _listed(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={go_quote(value)}" for key, value in sorted(values.items()))
