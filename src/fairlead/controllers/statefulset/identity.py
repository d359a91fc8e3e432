"""Who a pod of a stateful set is: its ordinal, its name, and the claims that follow that name.

pkg/controller/statefulset/stateful_set_utils.go. A pod that comes back gets the same name and the same storage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.workloads import StatefulSet
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.history import REVISION_LABEL
from fairlead.controllers.kinds import STATEFUL_SETS
from fairlead.controllers.pods import pod_from

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_name_and_ordinal = re.compile(r"(.*)-([0-9]+)").fullmatch
_decode_list = msgspec.json.Decoder(list[dict[str, object]]).decode


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    return f"{owner.metadata.name}-{ordinal}"


def ordinal_of(owner: StatefulSet, pod: Pod) -> int | None:
    """The pod's ordinal, or None if its name is not one of this set's."""
    found = _name_and_ordinal(pod.metadata.name)
    return int(found[2]) if found and found[1] == owner.metadata.name else None


def ordinals(owner: StatefulSet) -> range:
    start = owner.spec.ordinals.start
    return range(start, start + owner.spec.replicas)


def new_pod(owner: StatefulSet, template: Obj, revision: str, ordinal: int) -> Obj:
    """The pod with that ordinal, of the given template."""
    name = pod_name(owner, ordinal)
    pod = pod_from(template, STATEFUL_SETS, owner)
    meta, spec = pod["metadata"], pod["spec"]
    meta["name"] = name
    meta["labels"] = meta.get("labels", {}) | {
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(ordinal),
        REVISION_LABEL: revision,
    }
    spec["hostname"] = name
    if owner.spec.service_name:
        spec["subdomain"] = owner.spec.service_name
    claims = claim_names(owner, ordinal)
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    volumes += [volume for volume in spec.get("volumes", ()) if volume["name"] not in claims]
    if volumes:
        spec["volumes"] = volumes
    return pod


def claim_names(owner: StatefulSet, ordinal: int) -> Mapping[str, str]:
    """Volume name → claim name, of every claim template."""
    templates = _claim_templates(owner)
    return {
        template["metadata"]["name"]: f"{template['metadata']['name']}-{pod_name(owner, ordinal)}"
        for template in templates
    }


def _claim_templates(owner: StatefulSet) -> list[Obj]:
    return _decode_list(owner.spec.volume_claim_templates)


def new_claims(owner: StatefulSet, ordinal: int) -> list[Obj]:
    """The claims of one pod, as their templates say."""
    names = claim_names(owner, ordinal)
    made = []
    for template in _claim_templates(owner):
        of_template = template["metadata"]
        meta: Obj = {
            "name": names[of_template["name"]],
            "namespace": owner.metadata.namespace,
            "labels": of_template.get("labels", {}) | owner.selector.match_labels,
        }
        if "annotations" in of_template:
            meta["annotations"] = of_template["annotations"]
        if owner.spec.persistent_volume_claim_retention_policy.when_deleted == "Delete":
            meta["ownerReferences"] = [controller_reference(STATEFUL_SETS, owner)]
        made.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template.get("spec", {})}
        )
    return made


def missing_labels(pod: Pod, ordinal: int) -> Mapping[str, str]:
    """The labels of its identity that an existing pod lacks; its name is what tells whether there are any."""
    if pod.metadata.labels.get(POD_NAME_LABEL) == pod.metadata.name:
        return {}
    wanted = {POD_NAME_LABEL: pod.metadata.name, POD_INDEX_LABEL: str(ordinal)}
    return {name: value for name, value in wanted.items() if pod.metadata.labels.get(name) != value}


def is_of_former_pod(claim: Object, pod: str) -> bool:
    """Whether the claim is still tied to an earlier pod of that name, and will go with it."""
    return any(reference.kind == "Pod" and reference.name == pod for reference in claim.metadata.owner_references)
