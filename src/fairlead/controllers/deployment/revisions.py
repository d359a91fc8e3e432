"""Which replica set is the new one, and how old and new ones are numbered.

A deployment's history is its replica sets: the annotation `revision` numbers them, and `kubectl rollout undo` brings
an old template back, whose set then becomes the newest revision (pkg/controller/deployment/util).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.api.meta import ObjectMeta
from fairlead.api.names import SUBDOMAIN_MAX
from fairlead.api.objects import Obj
from fairlead.api.workloads import Deployment, ReplicaSet, template_of
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.deployment.sizes import DESIRED, MAXIMUM, max_replicas
from fairlead.controllers.kinds import DEPLOYMENTS
from fairlead.controllers.templates import HASH_LABEL, content_hash, with_label, without_hash
from fairlead.golang.numbers import known_int

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
ROLLBACK = "deprecated.deployment.rollback.to"

#: What a replica set does not inherit from its deployment's annotations.
_OWN = {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM}
_OWN |= {ROLLBACK}

_HISTORY_CHARACTERS = 2000

#: Of the deployment's name in that of its set: a dash and ten characters of hash follow.
_LONGEST_PREFIX = SUBDOMAIN_MAX - 11


def find_new(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set with the deployment's template, the oldest if a collision made several."""
    wanted = without_hash(template_of(deployment.spec.template))
    by_age = sorted(sets, key=lambda replica_set: (replica_set.metadata.creation_timestamp, replica_set.metadata.name))
    return next(
        (replica_set for replica_set in by_age if without_hash(template_of(replica_set.spec.template)) == wanted), None
    )


def revision_of(replica_set: ReplicaSet) -> int:
    return known_int(replica_set.metadata.annotations.get(REVISION, "")) or 0


def next_revision(old: Sequence[ReplicaSet]) -> int:
    return max((revision_of(replica_set) for replica_set in old), default=0) + 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """What a living set is told about the size of its deployment."""
    return {DESIRED: str(deployment.spec.replicas), MAXIMUM: str(max_replicas(deployment))}


def changed_annotations(deployment: Deployment, new: ReplicaSet, revision: int) -> dict[str, str]:
    """What the annotations of an existing new set lack; its sizes are told when it is scaled."""
    has = new.metadata.annotations
    wanted = inherited(deployment.metadata)
    if revision_of(new) < revision:
        wanted[REVISION] = str(revision)
        if former := has.get(REVISION):
            wanted[HISTORY] = _longer_history(has.get(HISTORY, ""), former)
    return {name: value for name, value in wanted.items() if has.get(name) != value}


def inherited(meta: ObjectMeta) -> dict[str, str]:
    """The annotations that a deployment and its sets share."""
    return {name: value for name, value in meta.annotations.items() if name not in _OWN}


def _longer_history(history: str, former: str) -> str:
    """The former revisions of a set that was rolled back to, the oldest forgotten when they grow too long."""
    revisions = [*(history.split(",") if history else ()), former]
    while len(revisions) > 1 and len(",".join(revisions)) > _HISTORY_CHARACTERS:
        del revisions[0]
    return ",".join(revisions)


def new_set(deployment: Deployment, revision: int, replicas: int) -> Obj:
    """The replica set of the deployment's present template."""
    template = template_of(deployment.spec.template)
    hash_ = content_hash(template, deployment.status.collision_count)
    template = with_label(template, HASH_LABEL, hash_)
    meta = {
        "name": f"{deployment.metadata.name[:_LONGEST_PREFIX]}-{hash_}",
        "namespace": deployment.metadata.namespace,
        "labels": dict(template["metadata"]["labels"]),
        "annotations": inherited(deployment.metadata) | size_annotations(deployment) | {REVISION: str(revision)},
        "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
    }
    spec: Obj = {"replicas": replicas, "selector": _selector(deployment, hash_), "template": template}
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


def _selector(deployment: Deployment, hash_: str) -> Obj:
    """The deployment's selector, narrowed to one template."""
    selector = deployment.selector
    labels: Mapping[str, str] = selector.match_labels | {HASH_LABEL: hash_}
    expressions = [
        {"key": requirement.key, "operator": requirement.operator}
        | ({"values": list(requirement.values)} if requirement.values else {})
        for requirement in selector.match_expressions
    ]
    return {"matchLabels": labels} | ({"matchExpressions": expressions} if expressions else {})
