"""Deployments: one replica set a template, and the way from one template to the next.

`sizes.py` is the arithmetic, `revisions.py` the history, `status.py` what is reported, `rollback.py` a wish of old
clients; `rollout.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.pods import Pod
from fairlead.api.workloads import Deployment
from fairlead.controllers.actions import Actions
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import candidates, claim, owner_of
from fairlead.controllers.deployment.rollout import Rollout
from fairlead.controllers.kinds import DEPLOYMENTS, PODS, REPLICA_SETS


def _waits_for_pods(world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
    """A deployment that recreates goes on when the last old pod is gone, which its replica sets do not tell."""
    if old is None or (new is not None and not new.is_finished):
        return
    owner = old.metadata.controller
    if owner is None or owner.kind != REPLICA_SETS.resource.kind:
        return
    replica_set = world.get(REPLICA_SETS, f"{old.metadata.namespace}/{owner.name}")
    if replica_set is None or replica_set.metadata.uid != owner.uid:
        return
    for key in _OWNER(world, None, replica_set):
        deployment = world.get(DEPLOYMENTS, key)
        if deployment is not None and deployment.spec.strategy.type == "Recreate":
            yield key


_OWNER = owner_of(DEPLOYMENTS)


class Deployments(Controller[Deployment]):
    name = "deployment-controller"
    queue_name = "deployment"
    account = "deployment-controller"
    kind = DEPLOYMENTS
    watches = (
        Watch(REPLICA_SETS, owner_of(DEPLOYMENTS, lambda deployment: deployment.selector)),
        Watch(PODS, _waits_for_pods, wakes_known=True),
    )

    def reconcile(self, obj: Deployment, world: World) -> Actions:
        found = candidates(world, REPLICA_SETS, obj, obj.selector)
        sets = yield from claim(
            DEPLOYMENTS, obj, REPLICA_SETS, found, lambda replica_set: obj.selector.matches(replica_set.metadata.labels)
        )
        yield from Rollout(obj, sets, world).run()
