"""The behaviour of pods in the API server.

What a pod says, and what it may say, is in the package `podspec`; here it is put together for the registry:
`PodStrategy` for pods themselves and their status, `SUBRESOURCES` for the other ways of changing one, `assign` for the
scheduler's binding. Reference: pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label
from fairlead.api.objects import Obj, metadata
from fairlead.api.pods import FINISHED
from fairlead.kinds.ips import ip_warnings
from fairlead.kinds.podspec.annotations import (
    drop_old_init_containers,
    validate_annotation_updates,
    validate_apparmor_matches,
    validate_pod_annotations,
    validate_seccomp_matches,
)
from fairlead.kinds.podspec.binding import assign, check_binding
from fairlead.kinds.podspec.containers import validate_image_is_trimmed
from fairlead.kinds.podspec.creation import copy_apparmor_annotations, merge_label_keys
from fairlead.kinds.podspec.defaults import default_pod, sync_service_account
from fairlead.kinds.podspec.disabled import drop_disabled
from fairlead.kinds.podspec.ephemeral import keep_only_ephemeral_containers, validate_ephemeral_update
from fairlead.kinds.podspec.known import KnownSpecs
from fairlead.kinds.podspec.resize import keep_only_resize, validate_resize
from fairlead.kinds.podspec.spec import validate_pod_spec
from fairlead.kinds.podspec.status import (
    default_status,
    drop_disabled_status,
    initial_status,
    keep_observed,
    validate_status_update,
)
from fairlead.kinds.podspec.update import validate_spec_update
from fairlead.kinds.podspec.warnings import USE_APPARMOR_FIELD, pod_warnings
from fairlead.kinds.strategy import FieldGetter, MetaCheck, Strategy

__all__ = ["SUBRESOURCES", "PodStrategy", "PodSubresource", "assign", "check_binding"]

#: What subresources leave alone, beside the metadata that no update changes (metav1.ResetObjectMetaForStatus).
_META_OF_OTHERS = ("labels", "annotations", "finalizers", "ownerReferences")
_NEW: Obj = {}
_TOKEN_WITHOUT_ACCOUNT = "must not be specified when serviceAccountName is not set"
_HOST_NAME = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
    "a DNS label is recommended"
)


def _spec_field(name: str) -> FieldGetter:
    return lambda pod: (pod.get("spec") or {}).get(name) or ""


def _status_field(name: str) -> FieldGetter:
    return lambda pod: (pod.get("status") or {}).get(name) or ""


def _host_network(pod: Obj) -> str:
    return "true" if (pod.get("spec") or {}).get("hostNetwork") else "false"


class PodStrategy(Strategy):
    """Pods: mostly immutable, deleted gracefully by their node."""

    meta_checks = (MetaCheck.CHANGE, MetaCheck.WHOLE)

    selectable = {
        "spec.nodeName": _spec_field("nodeName"),
        "spec.restartPolicy": _spec_field("restartPolicy"),
        "spec.schedulerName": _spec_field("schedulerName"),
        "spec.serviceAccountName": _spec_field("serviceAccountName"),
        "spec.hostNetwork": _host_network,
        "status.phase": _status_field("phase"),
        "spec.host": _spec_field("nodeName"),  # its name of old
        "status.podIP": _status_field("podIP"),
        "status.podIPs": lambda pod: "",  # may be asked for, but upstream never fills it in
        "status.nominatedNodeName": _status_field("nominatedNodeName"),
    }
    has_generation = True
    has_status = True
    kept_by_status = ("ownerReferences",)
    deletes_gracefully = True
    returns_deleted = True

    def __init__(self) -> None:
        self._known = KnownSpecs()
        #: Those that may stay in a pod: more than may come, for what a pod has is not taken from it.
        self._kept = KnownSpecs()

    def default(self, obj: Obj) -> None:
        default_pod(obj)
        if status := obj.get("status"):
            default_status(status)
        drop_old_init_containers(metadata(obj))

    def prepare_create(self, obj: Obj) -> list[str]:
        sync_service_account(obj["spec"])  # admission may have chosen one
        drop_disabled(obj["spec"])
        obj["status"] = initial_status(obj["spec"])
        merge_label_keys(obj)
        return [f"metadata.annotations[{key}]: {USE_APPARMOR_FIELD}" for key in copy_apparmor_annotations(obj)]

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        drop_disabled(obj["spec"], old["spec"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        if self._known.find(self._known.key(obj)) is None:
            self._validate_new(obj, errors)

    def check_new(self, obj: Obj, errors: Errors) -> Sequence[str]:
        key = self._known.key(obj)
        known = self._known.find(key)
        if known is None:
            found = Errors()
            self._validate_new(obj, found)
            errors.extend(found)
            if found:
                return []
            known = tuple(pod_warnings(obj))
            self._known.add(key, known)
        return [*_name_warnings(obj), *known]

    @staticmethod
    def _validate_new(obj: Obj, errors: Errors) -> None:
        spec, annotations = obj["spec"], metadata(obj).get("annotations") or {}
        _validate_pod(obj, errors)
        if spec.get("ephemeralContainers"):
            errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        if annotations:
            validate_seccomp_matches(annotations, spec, "spec", errors)
            validate_apparmor_matches(annotations, spec, "spec", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        key = self._kept.key(obj) if obj["spec"] == old["spec"] else None
        if self._kept.find(key) is not None:
            validate_annotation_updates(obj, old, errors)
            return
        found = Errors()
        _validate_pod(obj, found, old["spec"])
        validate_annotation_updates(obj, old, found)
        validate_spec_update(obj["spec"], old["spec"], found)
        errors.extend(found)
        if not found:
            self._kept.add(key, ())

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        """Only for new pods: updates mostly come from components, not from users."""
        return [] if old is not None else [*_name_warnings(obj), *pod_warnings(obj)]

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        status, was = obj.setdefault("status", {}), old.get("status") or {}
        drop_disabled_status(status, was)
        keep_observed(status, was)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_annotation_updates(obj, old, errors)
        validate_status_update(obj, old, errors)

    def status_warnings(self, obj: Obj) -> list[str]:
        """Texts about addresses in a status that is being written."""
        status = obj.get("status") or {}
        return [
            text
            for field in ("podIPs", "hostIPs")
            for i, ip in enumerate(status.get(field) or ())
            for text in ip_warnings(ip.get("ip", ""), f"status.{field}[{i}].ip")
        ]

    def grace_period_seconds(self, obj: Obj, asked: int | None) -> int:
        """The requested grace period, else that of the pod; 0 if no node has to terminate it."""
        spec = obj["spec"]
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in FINISHED:
            return 0
        seconds: int = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return 1 if seconds < 0 else seconds


def _name_warnings(pod: Obj) -> list[str]:
    wrong = dns1123_label(metadata(pod).get("name", ""))
    return [f"{_HOST_NAME}: [{' '.join(wrong)}]"] if wrong else []


def _validate_pod(pod: Obj, errors: Errors, old: Obj = _NEW) -> None:
    """What holds for a pod at any time (validatePodMetadataAndSpec); `old` is the specification that it had."""
    meta, spec = metadata(pod), pod["spec"]
    if annotations := meta.get("annotations"):
        validate_pod_annotations(annotations, spec, "metadata.annotations", errors)
    validate_pod_spec(spec, "spec", errors, metadata=meta, old=old)
    if "volumes" in spec and not spec.get("serviceAccountName"):
        _validate_no_tokens(spec["volumes"], errors)
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            validate_image_is_trimmed(container, f"spec.{kind}[{i}]", errors)


def _validate_no_tokens(volumes: list[Obj], errors: Errors) -> None:
    for i, volume in enumerate(volumes):
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                where = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                errors.forbidden(where, _TOKEN_WITHOUT_ACCOUNT)


class PodSubresource(msgspec.Struct, frozen=True):
    """A subresource that changes a part of a pod, under rules of its own.

    `new` is defaulted before `prepare`, which changes it in place; the rules of metadata are the registry's.
    """

    _keep_only: Callable[[Obj, Obj], None]
    _rules: Callable[[Obj, Obj, Errors], None]

    def prepare(self, new: Obj, old: Obj) -> None:
        """Restore every field that this subresource may not change."""
        self._keep_only(new, old)
        drop_disabled(new["spec"], old["spec"])
        if "status" in old:
            new["status"] = old["status"]
        meta, before = metadata(new), metadata(old)
        for field in _META_OF_OTHERS:
            if field in before:
                meta[field] = before[field]
            else:
                meta.pop(field, None)

    def validate(self, new: Obj, old: Obj, errors: Errors) -> None:
        _validate_pod(new, errors, old["spec"])
        self._rules(new, old, errors)


SUBRESOURCES: Mapping[str, PodSubresource] = {
    "resize": PodSubresource(keep_only_resize, validate_resize),
    "ephemeralcontainers": PodSubresource(keep_only_ephemeral_containers, validate_ephemeral_update),
}
