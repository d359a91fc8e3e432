"""The rules of a pod template inside a workload (ValidatePodTemplateSpec)."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_labels
from fairlead.kinds.meta import validate_annotations
from fairlead.kinds.podspec.annotations import (
    validate_apparmor_matches,
    validate_pod_annotations,
    validate_seccomp_matches,
)
from fairlead.kinds.podspec.spec import validate_pod_spec


def validate_pod_template(template: Obj, path: str, errors: Errors) -> None:
    """All rules of a (defaulted) template at `path`, for example `spec.template`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    validate_labels(metadata.get("labels"), errors, f"{path}.labels")
    validate_annotations(annotations, errors, f"{path}.annotations")
    validate_pod_annotations(annotations, spec, f"{path}.annotations", errors)
    validate_pod_spec(spec, f"{path}.spec", errors)
    if annotations:
        validate_seccomp_matches(annotations, spec, f"{path}.spec", errors)
        validate_apparmor_matches(annotations, spec, f"{path}.spec", errors)
    if spec.get("ephemeralContainers"):
        errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
