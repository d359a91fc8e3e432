"""Cluster roles that are the sum of others: `admin` grows with every role that carries its label.

Source: pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.roles import ClusterRole
from fairlead.controllers.actions import Actions, Patch
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CLUSTER_ROLES

_decode = msgspec.json.Decoder().decode


def _sums(world: World, old: ClusterRole | None, new: ClusterRole | None) -> Iterator[str]:
    """Any role may be part of any sum, before or after its change."""
    for role in world.of(CLUSTER_ROLES):
        if role.aggregation_rule is not None:
            yield role.metadata.name


class AggregatedRoles(Controller[ClusterRole]):
    name = "clusterrole-aggregation-controller"
    kind = CLUSTER_ROLES
    watches = (Watch(CLUSTER_ROLES, _sums),)

    def concerns(self, old: ClusterRole | None, new: ClusterRole | None) -> bool:
        return False  # `_sums` says it all

    def reconcile(self, obj: ClusterRole, world: World) -> Actions:
        if obj.aggregation_rule is None:
            return
        rules: list[Obj] = []
        for selector in obj.aggregation_rule.cluster_role_selectors:
            for role in sorted(world.of(CLUSTER_ROLES), key=lambda one: one.metadata.name):
                if role.metadata.name != obj.metadata.name and selector.matches(role.metadata.labels):
                    rules += [rule for rule in _decode(role.rules) or () if rule not in rules]
        if rules != (_decode(obj.rules) or []):
            yield Patch(CLUSTER_ROLES, obj, {"rules": rules or None})
