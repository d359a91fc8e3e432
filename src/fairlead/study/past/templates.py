"""Jobs that come to the same as a Job or a pod of a dump.

All that comes again comes as a Job: where a quota refuses its pods it tries again, as those did who made the others.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fairlead.api.objects import Obj, metadata
from fairlead.study.reading import mapping_at, mappings, number_of

#: What of a Job says how it goes on; its selector, and whom it waits for, belong to the old one.
_JOB_FIELDS: Final = (
    "parallelism",
    "completions",
    "completionMode",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "activeDeadlineSeconds",
    "podFailurePolicy",
    "podReplacementPolicy",
    "successPolicy",
)
#: Where an old pod was, and what admission has written into it. Accounts may be gone, and nothing here needs one.
_OLD_FIELDS: Final = frozenset(
    {
        "nodeName",
        "serviceAccountName",
        "serviceAccount",
        "priority",
        "preemptionPolicy",
        "ephemeralContainers",
        "schedulingGates",
    }
)
#: Labels by which the controllers of the old pods know them.
_OLD_LABELS: Final = frozenset({"controller-uid", "job-name", "pod-template-hash", "controller-revision-hash"})
_OLD_PREFIX: Final = "batch.kubernetes.io/"
#: Classes that every cluster has.
_SYSTEM_CLASSES: Final = "system-"


def job_of_job(job: Obj, classes: Collection[str]) -> Obj | None:
    """The spec of another one; None if it has no containers. `classes` are the priority classes of the dump."""
    spec = mapping_at(job, "spec")
    template = _template(mapping_at(spec, "template"), mapping_at(spec, "template", "spec"), classes)
    if template is None:
        return None
    return {name: spec[name] for name in _JOB_FIELDS if name in spec} | {"template": template}


def job_of_pod(pod: Obj, classes: Collection[str]) -> Obj | None:
    """The spec of a Job that makes such a pod once."""
    template = _template(pod, mapping_at(pod, "spec"), classes)
    return None if template is None else {"backoffLimit": 0, "template": template}


def _template(described: Obj, spec: Obj, classes: Collection[str]) -> Obj | None:
    containers = mappings(spec.get("containers"))
    if not containers:
        return None
    kept = {name: value for name, value in spec.items() if name not in _OLD_FIELDS}
    kept["containers"] = [_container(container) for container in containers]
    if spec.get("restartPolicy") != "OnFailure":
        kept["restartPolicy"] = "Never"
    name = str(kept.get("priorityClassName") or "")
    if name not in classes and not name.startswith(_SYSTEM_CLASSES):
        kept.pop("priorityClassName", None)
    meta: Obj = mapping_at(described, "metadata")
    labels = {key: value for key, value in mapping_at(meta, "labels").items() if not _is_old(str(key))}
    return {"metadata": {"labels": labels, "annotations": dict(mapping_at(meta, "annotations"))}, "spec": kept}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    """Without what only pods may have that are restarted."""
    return {name: value for name, value in container.items() if name != "resizePolicy"}


def _is_old(label: str) -> bool:
    return label in _OLD_LABELS or label.startswith(_OLD_PREFIX)


def pods_of(spec: Obj) -> int:
    """How many pods a Job of that spec makes, if all goes well."""
    return max(number_of(spec.get("completions"), number_of(spec.get("parallelism"), 1)), 1)


def again(spec: Obj, name: str, namespace: str, annotations: dict[str, str]) -> Obj:
    """A Job of that spec, whose pods do what the annotations say. It goes as soon as it is over."""
    template = spec["template"]
    meta = metadata(template)
    described = meta | {"annotations": {**meta["annotations"], **annotations}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | {"ttlSecondsAfterFinished": 0, "template": {**template, "metadata": described}},
    }
