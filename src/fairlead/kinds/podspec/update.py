"""What may change in a pod that exists: little, because it may already run somewhere (ValidatePodUpdate).

Images, a shorter deadline, more tolerations, fewer scheduling gates; and while gates hold the pod back, a narrower
choice of nodes (KEP-3838). Everything else is compared as a whole, after these fields are set back.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.fields import Errors
from fairlead.api.names import in_range
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.affinity import REQUIRED
from fairlead.kinds.podspec.containers import validate_image_is_trimmed
from fairlead.kinds.podspec.differences import difference, is_same
from fairlead.kinds.podspec.structs import NODE_SELECTOR_TERM, all_as_go, as_go
from fairlead.kinds.podspec.tolerations import validate_tolerations
from fairlead.kinds.podspec_form import pod_spec_form

_MAX_INT32 = 2**31 - 1
_ONLY_THESE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_CHECKED_FIELDS = ("activeDeadlineSeconds", "schedulingGates", "tolerations")


def validate_spec_update(spec: Obj, old: Obj, errors: Errors) -> None:
    """Whether a pod may change from one specification to the other."""
    for kind in ("containers", "initContainers"):
        if not _validate_images(spec.get(kind) or [], old.get(kind) or [], f"spec.{kind}", errors):
            return
    if not _validate_deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), errors):
        return
    _validate_tolerations(spec.get("tolerations") or [], old.get("tolerations") or [], errors)
    _validate_gates(spec.get("schedulingGates") or [], old.get("schedulingGates") or [], errors)
    if spec == old:
        return
    rest = _without_checked_changes(spec, old)
    if old.get("schedulingGates"):
        _check_gated_changes(rest, old, errors)
    if not is_same(rest, old):
        errors.forbidden("spec", f"{_ONLY_THESE}\n{difference(pod_spec_form(old), pod_spec_form(rest))}")


def _validate_images(containers: list[Obj], old: list[Obj], path: str, errors: Errors) -> bool:
    if len(containers) != len(old):
        errors.forbidden(path, "pod updates may not add or remove containers")
        return False
    for i, container in enumerate(containers):
        if not container.get("image"):
            errors.required(f"{path}[{i}].image")
        validate_image_is_trimmed(container, f"{path}[{i}]", errors)
    return True


def _validate_deadline(seconds: int | None, old: int | None, errors: Errors) -> bool:
    """From none to some, or from some to fewer; returns whether to go on looking."""
    path = "spec.activeDeadlineSeconds"
    if seconds is None:
        if old is not None:
            errors.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if texts := in_range(seconds, 0, _MAX_INT32):
        errors.invalid(path, seconds, texts[0])
        return False
    if old is not None and old < seconds:
        errors.invalid(path, seconds, "must be less than or equal to previous value")
        return False
    return True


def _validate_tolerations(tolerations: list[Obj], old: list[Obj], errors: Errors) -> None:
    if not {_without_seconds(toleration) for toleration in old} <= {_without_seconds(one) for one in tolerations}:
        text = "existing toleration can not be modified except its tolerationSeconds"
        return errors.forbidden("spec.tolerations", text)
    return validate_tolerations(tolerations, "spec.tolerations", errors)


def _without_seconds(toleration: Obj) -> frozenset[tuple[str, str]]:
    return frozenset((field, value) for field, value in toleration.items() if field != "tolerationSeconds")


def _validate_gates(gates: list[Obj], old: list[Obj], errors: Errors) -> None:
    known = {gate.get("name", "") for gate in old}
    for name, i in {gate.get("name", ""): i for i, gate in enumerate(gates)}.items():
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.forbidden(f"spec.schedulingGates[{i}].name", text)


def _without_checked_changes(spec: Obj, old: Obj) -> Obj:
    """The new specification with everything set back that was checked on its own."""
    rest = dict(spec)
    for field in _CHECKED_FIELDS:
        _set_back(rest, old, field)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            rest[kind] = [
                container | {"image": before.get("image", "")}
                for container, before in zip(spec[kind], old.get(kind) or (), strict=True)
            ]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _set_back(rest, old, "terminationGracePeriodSeconds")
    return rest


def _set_back(rest: Obj, old: Obj, field: str) -> None:
    if field in old:
        rest[field] = old[field]
    else:
        rest.pop(field, None)


def _check_gated_changes(rest: Obj, old: Obj, errors: Errors) -> None:
    """While gates hold a pod back, its choice of nodes may become narrower."""
    if rest.get("nodeSelector") != old.get("nodeSelector"):
        _validate_selector_additions(rest.get("nodeSelector") or {}, old.get("nodeSelector") or {}, errors)
        _set_back(rest, old, "nodeSelector")
    affinity, before = rest.get("affinity") or {}, old.get("affinity") or {}
    if affinity.get("nodeAffinity") != before.get("nodeAffinity"):
        _validate_affinity_additions(affinity.get("nodeAffinity") or {}, before.get("nodeAffinity") or {}, errors)
        affinity = dict(affinity)
        _set_back(affinity, before, "nodeAffinity")
        rest["affinity"] = affinity
        if not affinity and "affinity" not in old:
            del rest["affinity"]


def _validate_selector_additions(selector: Obj, old: Obj, errors: Errors) -> None:
    if any(selector.get(key) != value for key, value in old.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", dict(sorted(selector.items())), text)


def _validate_affinity_additions(affinity: Obj, old: Obj, errors: Errors) -> None:
    """Terms are alternatives, so none may come; requirements of a term must all hold, so more may come."""
    if REQUIRED not in old:
        return
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    before: Sequence[Obj] = old[REQUIRED].get("nodeSelectorTerms") or ()
    terms: Sequence[Obj] = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    if before and len(before) != len(terms):
        shown = all_as_go(terms, NODE_SELECTOR_TERM) or None
        errors.invalid(path, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for i, (term, was) in enumerate(zip(terms, before, strict=False)):
        if not _has_only_additions(term, was):
            shown_term = as_go(term, NODE_SELECTOR_TERM)
            errors.invalid(f"{path}[{i}]", shown_term, "only additions are allowed (no mutations or deletions)")


def _has_only_additions(term: Obj, old: Obj) -> bool:
    if not any(old.values()) and any(term.values()):
        return False  # an empty term matches nothing, so anything in it matches more
    return all(
        (term.get(field) or [])[: len(old.get(field) or ())] == (old.get(field) or [])
        for field in ("matchExpressions", "matchFields")
    )
