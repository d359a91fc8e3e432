"""How claims and classes of storage speak of each other, also where they still do it by annotation."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj, metadata

#: The older spelling of `storageClassName`; it wins.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
#: Either one makes a class the default.
DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def class_annotation(obj: Obj) -> str | None:
    found: str | None = (metadata(obj).get("annotations") or {}).get(CLASS_ANNOTATION)
    return found


def storage_class_of(obj: Obj) -> str | None:
    """The class of a claim or volume; None if it leaves the choice to the cluster, "" if it wants none."""
    annotated = class_annotation(obj)
    found: str | None = annotated if annotated is not None else (obj.get("spec") or {}).get("storageClassName")
    return found
