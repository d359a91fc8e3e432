"""Namespace: labelled with its own name, kept alive by its finalizers until it is empty.

    Active ──DELETE──▶ Terminating ──finalizers gone──▶ removed

Sources: pkg/registry/core/namespace/{strategy,storage/storage}.go, pkg/apis/core/{v1/defaults,validation}
(1.36), S0-22 ff.
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.errors import Conflict
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import MetaCheck, Strategy

NAME_LABEL: Final = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER: Final = "kubernetes"


class NamespaceStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)
    has_status = True
    selectable = {"status.phase": lambda namespace: str((namespace.get("status") or {}).get("phase", ""))}

    def default(self, obj: Obj) -> None:
        obj["status"].setdefault("phase", "Active")
        if name := metadata(obj).get("name"):
            metadata(obj).setdefault("labels", {})[NAME_LABEL] = name

    def prepare_create(self, obj: Obj) -> None:
        """By now a generated name is known; without any, the rules of metadata refuse the object."""
        obj["status"] = {"phase": "Active"}
        if name := metadata(obj).get("name"):
            metadata(obj).setdefault("labels", {})[NAME_LABEL] = name
        finalizers = obj["spec"].setdefault("finalizers", [])
        if NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(NAMESPACE_FINALIZER)

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        _keep_finalizers(obj, old)

    def validate(self, obj: Obj, errors: Errors) -> None:
        for finalizer in obj["spec"].get("finalizers") or ():
            _validate_finalizer(finalizer, "spec.finalizers", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Only metadata has rules."""

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        phase, is_going = obj["status"].get("phase", ""), bool(metadata(obj).get("deletionTimestamp"))
        if not is_going and phase != "Active":
            errors.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
        elif is_going and phase != "Terminating":
            errors.invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")

    def check_deletion(self, obj: Obj, options: DeleteOptions) -> None:
        """The preconditions, in the words of this kind's own storage."""
        meta = metadata(obj)
        asked = (("UID", options.precondition_uid), ("ResourceVersion", options.precondition_resource_version))
        for (what, wanted), found in zip(asked, (meta["uid"], meta["resourceVersion"]), strict=True):
            if wanted is not None and wanted != found:
                why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                raise Conflict.of("namespaces", meta["name"], why)

    def mark_deleted(self, obj: Obj) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"
        metadata(obj).pop("deletionGracePeriodSeconds", None)

    def holds_deletion(self, obj: Obj) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))


def finalized(sent: Obj, old: Obj) -> Obj:
    """What the `finalize` subresource stores: the finalizers (and metadata) that were sent, else the old object."""
    return old | {"metadata": metadata(sent), "spec": sent["spec"]}


def validate_finalize(obj: Obj, errors: Errors) -> None:
    for index, finalizer in enumerate(obj["spec"].get("finalizers") or ()):
        _validate_finalizer(finalizer, f"spec.finalizers[{index}]", errors)


def _validate_finalizer(finalizer: str, path: str, errors: Errors) -> None:
    check(errors, path, finalizer, names.qualified_name)
    check(errors, path, finalizer, names.kube_finalizer)


def _keep_finalizers(obj: Obj, old: Obj) -> None:
    kept = (old.get("spec") or {}).get("finalizers")
    if kept:
        obj["spec"]["finalizers"] = kept
    else:
        obj["spec"].pop("finalizers", None)
