"""Rolling back by annotation, which is what became of `spec.rollbackTo` of old API versions.

kubectl patches the template instead; clients that speak through old libraries still write the annotation
(pkg/controller/deployment/rollback.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.api.workloads import Deployment, ReplicaSet, template_of
from fairlead.controllers.actions import Actions, Emit, Patch
from fairlead.controllers.deployment.revisions import ROLLBACK, inherited, revision_of
from fairlead.controllers.kinds import DEPLOYMENTS
from fairlead.controllers.templates import without_hash
from fairlead.golang.numbers import known_int

_NOT_FOUND: Final = "DeploymentRollbackRevisionNotFound"
_UNCHANGED: Final = "DeploymentRollbackTemplateUnchanged"
_DONE: Final = "DeploymentRollback"


def wanted_revision(deployment: Deployment) -> int | None:
    """The revision to go back to, 0 for the last one; None if nobody asks for one."""
    return known_int(deployment.metadata.annotations.get(ROLLBACK, ""))


def roll_back(deployment: Deployment, sets: Sequence[ReplicaSet], revision: int) -> Actions:
    """Take the template of that revision over, and forget the wish in any case."""
    target = revision or _last(sets)
    found = next((replica_set for replica_set in sets if revision_of(replica_set) == target), None) if target else None
    patch: Obj = {"metadata": {"annotations": {ROLLBACK: None}}}
    if found is None:
        what = "the revision to rollback to" if revision else "last revision"
        yield Emit(_NOT_FOUND, f"Unable to find {what}.", WARNING)
        yield Patch(DEPLOYMENTS, deployment, patch)
        return
    template, name = without_hash(template_of(found.spec.template)), deployment.metadata.name
    if template == without_hash(template_of(deployment.spec.template)):
        text = f'The rollback revision contains the same template as current deployment "{name}"'
        yield Emit(_UNCHANGED, text, WARNING)
        yield Patch(DEPLOYMENTS, deployment, patch)
        return
    patch["metadata"]["annotations"] |= dict.fromkeys(inherited(deployment.metadata)) | inherited(found.metadata)
    patch["spec"] = {"template": template | {"$patch": "replace"}}
    yield Patch(DEPLOYMENTS, deployment, patch, PatchType.STRATEGIC)
    yield Emit(_DONE, f'Rolled back deployment "{name}" to revision {target}', NORMAL)


def _last(sets: Sequence[ReplicaSet]) -> int:
    """The revision before the newest; 0 if there is none."""
    return [0, 0, *sorted(revision_of(replica_set) for replica_set in sets)][-2]
