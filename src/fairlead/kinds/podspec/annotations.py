"""Annotations of pods that mean something to the server.

Before there were fields, seccomp and AppArmor were annotations; both forms must agree where both are given. A mirror
pod belongs to a node. Reference: ValidatePodSpecificAnnotations and its neighbours in pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.pods import MIRROR
from fairlead.golang.numbers import known_int
from fairlead.golang.quoting import go_quote
from fairlead.kinds.podspec.paths import validate_descending_path
from fairlead.kinds.podspec.tolerations import OLD_TOLERATIONS, validate_old_tolerations
from fairlead.kinds.podspec.visiting import each_with_path

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
LOCALHOST = "localhost/"

#: Annotations in which pods kept their init containers before there was a field for them.
_OLD_INIT_CONTAINERS = (
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
)

_SECCOMP_DEFAULTS = ("runtime/default", "docker/default")
#: The annotation's spelling of a profile type.
_APPARMOR_WORDS = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
_SECCOMP_WORDS = {"Unconfined": ("unconfined",), "RuntimeDefault": _SECCOMP_DEFAULTS}
_MAX_INT32 = 2**31 - 1
_INTEGER = re.compile("-[0-9]+|0|[1-9][0-9]*")


def is_mirror(pod: Obj) -> bool:
    """Changing it would make its kubelet delete it."""
    return MIRROR in (metadata(pod).get("annotations") or {})


def drop_old_init_containers(meta: Obj) -> None:
    """Nobody reads them any more, so nobody is shown them (Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec)."""
    if not (annotations := meta.get("annotations")):
        return
    for key in _OLD_INIT_CONTAINERS:
        annotations.pop(key, None)
    if not annotations:
        del meta["annotations"]


def validate_pod_annotations(annotations: Mapping[str, str], spec: Obj, path: str, errors: Errors) -> None:
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text)
    if tolerations := annotations.get(OLD_TOLERATIONS):
        validate_old_tolerations(tolerations, path, errors)
    if DELETION_COST in annotations and not _is_int32(annotations[DELETION_COST]):
        errors.invalid(f"{path}[{DELETION_COST}]", annotations[DELETION_COST], "must be a 32bit integer")
    if SECCOMP_POD in annotations:
        _validate_seccomp(annotations[SECCOMP_POD], f"{path}.{SECCOMP_POD}", errors)
    for key, value in annotations.items():
        if key.startswith(SECCOMP_CONTAINER):
            _validate_seccomp(value, f"{path}.{key}", errors)
    for key, value in annotations.items():
        if key.startswith(APPARMOR):
            _validate_apparmor(key.removeprefix(APPARMOR), value, spec, f"{path}[{key}]", errors)


def _is_int32(text: str) -> bool:
    """A plain number: no plus sign, no leading zeros (helper.GetDeletionCostFromPodAnnotations)."""
    number = known_int(text) if _INTEGER.fullmatch(text) else None
    return number is not None and -_MAX_INT32 - 1 <= number <= _MAX_INT32


def _validate_seccomp(profile: str, path: str, errors: Errors) -> None:
    if profile in _SECCOMP_DEFAULTS or profile == "unconfined":
        return
    if profile.startswith(LOCALHOST):
        validate_descending_path(profile.removeprefix(LOCALHOST), path, errors)
    else:
        errors.invalid(path, profile, "must be a valid seccomp profile")


def _validate_apparmor(container_name: str, profile: str, spec: Obj, path: str, errors: Errors) -> None:
    if all(container.get("name") != container_name for container, _ in each_with_path(spec, "spec")):
        errors.invalid(path, container_name, "container not found")
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(LOCALHOST):
        errors.invalid(path, profile, f"invalid AppArmor profile name: {go_quote(profile)}")


def validate_annotation_updates(obj: Obj, old: Obj, errors: Errors) -> None:
    """What may not be added to, taken from or changed on a living pod, and what is always wrong."""
    annotations = obj["metadata"].get("annotations") or {}
    before = old["metadata"].get("annotations") or {}
    for key, value in before.items():
        if annotations.get(key) != value:
            _refuse_change(key, "remove or update", errors)
    for key in annotations:
        if key not in before:
            _refuse_change(key, "add", errors)
    validate_pod_annotations(annotations, obj["spec"], "metadata.annotations", errors)


def _refuse_change(key: str, verb: str, errors: Errors) -> None:
    if key.startswith(APPARMOR):
        errors.forbidden(f"metadata.annotations[{key}]", f"may not {verb} AppArmor annotations")
    if key == MIRROR:
        errors.forbidden(f"metadata.annotations[{key}]", f"may not {verb} mirror pod annotation")


def validate_seccomp_matches(annotations: Mapping[str, str], spec: Obj, path: str, errors: Errors) -> None:
    """A seccomp annotation and the field of the same pod or container say the same."""
    owners = [(spec, SECCOMP_POD, path)]
    owners += [
        (container, SECCOMP_CONTAINER + container.get("name", ""), here)
        for container, here in each_with_path(spec, path)
    ]
    for owner, key, here in owners:
        profile = (owner.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            words = _SECCOMP_WORDS
            _validate_match(
                annotations[key], profile, words, "seccomp", f"{here}.securityContext.seccompProfile", errors
            )


def validate_apparmor_matches(annotations: Mapping[str, str], spec: Obj, path: str, errors: Errors) -> None:
    """The same for AppArmor, whose field on the pod holds for containers without one."""
    if (spec.get("os") or {}).get("name") == "windows":
        return
    on_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, here in each_with_path(spec, path):
        profile = (container.get("securityContext") or {}).get("appArmorProfile", on_pod)
        key = APPARMOR + container.get("name", "")
        if profile is not None and key in annotations:
            words, where = _APPARMOR_WORDS, f"{here}.securityContext.appArmorProfile"
            _validate_match(annotations[key], profile, words, "apparmor", where, errors)


def _validate_match(
    annotation: str, profile: Obj, words: Mapping[str, tuple[str, ...]], what: str, path: str, errors: Errors
) -> None:
    kind = profile.get("type", "")
    is_local = kind == "Localhost"
    if (kind in words and annotation not in words[kind]) or (is_local and not annotation.startswith(LOCALHOST)):
        errors.forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif is_local and annotation.removeprefix(LOCALHOST) != profile.get("localhostProfile"):
        errors.forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")
