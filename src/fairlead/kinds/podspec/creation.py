"""What the server makes of a pod at its birth, beyond defaults (PrepareForCreate of pkg/registry/core/pod)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.podspec.affinity import PREFERRED, REQUIRED
from fairlead.kinds.podspec.annotations import APPARMOR, LOCALHOST
from fairlead.kinds.podspec.security import validate_apparmor
from fairlead.kinds.podspec.visiting import each_container


def merge_label_keys(pod: Obj) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys` become requirements of the selector beside them (KEP-3633, KEP-3243)."""
    spec, labels = pod["spec"], metadata(pod).get("labels") or {}
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, "matchLabelKeys", "In", labels)
    for term in _pod_terms(spec.get("affinity") or {}):
        _merge(term, "matchLabelKeys", "In", labels)
        _merge(term, "mismatchLabelKeys", "NotIn", labels)


def _pod_terms(affinity: Obj) -> Iterator[Obj]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        weighted: Iterable[Obj] = terms.get(PREFERRED) or ()
        yield from (term["podAffinityTerm"] for term in weighted if "podAffinityTerm" in term)
        yield from terms.get(REQUIRED) or ()


def _merge(owner: Obj, field: str, operator: str, labels: Mapping[str, str]) -> None:
    keys, selector = owner.get(field), owner.get("labelSelector")
    if not keys or selector is None:
        return
    found = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    if found:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *found]


def copy_apparmor_annotations(pod: Obj) -> list[str]:
    """An AppArmor profile that only an annotation names becomes the field (KEP-24, version skew).

    Returns the keys of those annotations, and of such as say nothing valid: their authors should use the field.
    """
    annotations, spec = metadata(pod).get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return []
    alone = []
    on_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container in each_container(spec):
        key = APPARMOR + container.get("name", "")
        annotation = annotations.get(key)
        context = container.get("securityContext") or {}
        if annotation is None or "appArmorProfile" in context:
            continue
        profile = apparmor_profile_of(annotation)
        if profile is not None and profile == on_pod:
            continue
        if profile is not None:
            container["securityContext"] = context | {"appArmorProfile": profile}
        alone.append(key)
    return alone


def apparmor_profile_of(annotation: str) -> Obj | None:
    """The field that says what the annotation says; None if nothing valid does."""
    kinds = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
    if annotation in kinds:
        return {"type": kinds[annotation]}
    if not annotation.startswith(LOCALHOST):
        return None
    profile = {"type": "Localhost", "localhostProfile": annotation.removeprefix(LOCALHOST)}
    errors = Errors()
    validate_apparmor(profile, "", errors)
    return None if errors else profile
