"""What the arbitrator may do, and nothing more, with the reasons.

Inside `fairlead up` a role says so; for a cluster elsewhere `python -m docs.build` writes deploy/arbitrator/rbac.yaml.
tests/arbitrator/test_rbac.py lets it work under exactly these rules, and fails for one that it does not use.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.arbitrator.objects import GROUP, MISSPELT_GROUP


class Permission(NamedTuple):
    """A rule of a role, and what it is for; "" if that is the same as for the rule before."""

    why: str
    groups: list[str]
    resources: list[str]
    verbs: list[str]
    names: tuple[str, ...] = ()

    def rule(self) -> Obj:
        found: Obj = {"apiGroups": self.groups, "resources": self.resources, "verbs": self.verbs}
        return found | ({"resourceNames": list(self.names)} if self.names else {})


_READ: Final = ["list", "watch"]
#: In the whole cluster.
CLUSTER: Final = (
    Permission("What is divided, and who asks for it.", [""], ["nodes", "namespaces", "pods", "resourcequotas"], _READ),
    Permission("", ["policy"], ["poddisruptionbudgets"], _READ),
    Permission(
        "Whether a pod would fit once others have gone: what the scheduler looks at.",
        [""],
        ["persistentvolumes", "persistentvolumeclaims", "services", "replicationcontrollers"],
        _READ,
    ),
    Permission("", ["apps"], ["replicasets", "statefulsets"], _READ),
    Permission(
        "",
        ["storage.k8s.io"],
        ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        _READ,
    ),
    Permission("", ["resource.k8s.io"], ["deviceclasses", "resourceclaims", "resourceslices"], _READ),
    Permission(
        "What the administrator says. Every namespace without a Consumer gets one.",
        [GROUP],
        ["consumers", "consumergroups", "arbitratorpolicies"],
        _READ,
    ),
    Permission("", [GROUP], ["consumers"], ["create", "patch"]),
    Permission("As the documents spell it; copied to consumers.", [MISSPELT_GROUP], ["kuabeconsumers"], _READ),
    Permission("What is answered.", [GROUP], ["allocations"], [*_READ, "create", "patch"]),
    Permission("", [GROUP], ["allocations/status", "consumergroups/status"], ["patch"]),
    Permission("Pods are asked to go, never deleted.", [""], ["pods/eviction"], ["create"]),
    Permission("Scheduling gates are lifted.", [""], ["pods"], ["patch"]),
    Permission("", [""], ["events"], ["create", "patch"]),
)
#: In the namespace where it runs, of several of them.
NAMESPACE: Final = (
    Permission(
        "Exactly one arbitrates. (What is created has no name yet, for RBAC.)",
        ["coordination.k8s.io"],
        ["leases"],
        ["create"],
    ),
    Permission("", ["coordination.k8s.io"], ["leases"], ["get", "update"], ("fairlead-arbitrator",)),
    Permission("The extender's Service leads to that one.", ["discovery.k8s.io"], ["endpointslices"], ["create"]),
    Permission(
        "",
        ["discovery.k8s.io"],
        ["endpointslices"],
        ["patch"],
        ("fairlead-arbitrator-extender-ipv4", "fairlead-arbitrator-extender-ipv6"),
    ),
)
