"""Cluster roles that are the sum of others: `admin` grows with every role that carries its label.

Source: pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.roles import ClusterRole
from fairlead.controllers.actions import Actions, Patch
from fairlead.controllers.base import Controller, Watch, World, by_name
from fairlead.controllers.kinds import CLUSTER_ROLES
from fairlead.controllers.selecting import selected

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def _sums(world: World, old: ClusterRole | None, new: ClusterRole | None) -> Iterator[str]:
    """Any role may be part of any sum, before or after its change."""
    for role in by_name(world.of(CLUSTER_ROLES).index("aggregating", _aggregating)[""]):
        yield role.metadata.name


def _aggregating(role: ClusterRole) -> tuple[str, ...]:
    return ("",) if role.aggregation_rule is not None else ()


class AggregatedRoles(Controller[ClusterRole]):
    name = "clusterrole-aggregation-controller"
    queue_name = "ClusterRoleAggregator"
    account = "clusterrole-aggregation-controller"
    kind = CLUSTER_ROLES
    is_patient = True
    watches = (Watch(CLUSTER_ROLES, _sums),)

    def concerns(self, old: ClusterRole | None, new: ClusterRole | None, world: World) -> bool:
        return False  # `_sums` says it all

    def reconcile(self, obj: ClusterRole, world: World) -> Actions:
        if obj.aggregation_rule is None:
            return
        found: dict[bytes, Obj] = {}
        for selector in obj.aggregation_rule.cluster_role_selectors:
            for role in selected(world, CLUSTER_ROLES, "", selector):
                if role.metadata.name != obj.metadata.name:
                    for rule in _decode(role.rules) or ():
                        found.setdefault(_encode(rule), rule)
        rules = list(found.values())
        if rules != (_decode(obj.rules) or []):
            yield Patch(CLUSTER_ROLES, obj, {"rules": rules or None})
