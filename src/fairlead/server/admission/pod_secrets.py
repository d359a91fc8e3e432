"""Where a pod's spec refers to secrets, and which of these its service account allows.

Only two rules of ServiceAccount admission need it: mirror pods may use no secret at all, and an account with the
annotation kubernetes.io/enforce-mountable-secrets lets its pods use only those that it lists.
Source: plugin/pkg/admission/serviceaccount, pkg/api/pod VisitPodSecretNames.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote

#: Container lists of a pod and what the texts call their members.
_INIT, _MAIN, _EPHEMERAL = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)

#: Volume sources with a reference to a secret, and the path to its name.
_VOLUME_REFERENCES = (
    ("secret", "secretName"),
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)


def uses_secrets(spec: Obj) -> bool:
    return any(_all_names(spec))


def first_secret_not_allowed(
    spec: Obj,
    account: str,
    mountable: AbstractSet[str],
    pullable: AbstractSet[str],
    *,
    ephemeral_only: bool,
) -> str:
    """Why the pod may not use a secret that it refers to; empty if it may use them all."""
    forbidden = f"is not allowed because service account {account} does not reference that"
    if not ephemeral_only:
        for volume in spec.get("volumes") or ():
            name = (volume.get("secret") or {}).get("secretName")
            if name is not None and name not in mountable:
                return f"volume with secret.secretName={go_quote(name)} {forbidden} secret"
    for field, noun in (_EPHEMERAL,) if ephemeral_only else (_INIT, _MAIN):
        for container in spec.get(field) or ():
            for how, name in _of_environment(container):
                if name not in mountable:
                    container_text = f"{noun} {container.get('name', '')}"
                    return (
                        f"{container_text} with {how} referencing secret.secretName={go_quote(name)} {forbidden} secret"
                    )
    if not ephemeral_only:
        for index, reference in enumerate(spec.get("imagePullSecrets") or ()):
            name = reference.get("name", "")
            if name not in pullable:
                return f"imagePullSecrets[{index}].name={go_quote(name)} {forbidden} imagePullSecret"
    return ""


def _of_environment(container: Obj) -> Iterator[tuple[str, str]]:
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield f"envVar {variable.get('name', '')}", reference.get("name", "")
    for source in container.get("envFrom") or ():
        if (reference := source.get("secretRef")) is not None:
            yield "envFrom", reference.get("name", "")


def _all_names(spec: Obj) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name", "")
    for field, _ in (_INIT, _MAIN, _EPHEMERAL):
        for container in spec.get(field) or ():
            yield from (name for _, name in _of_environment(container))
    for volume in spec.get("volumes") or ():
        for path in _VOLUME_REFERENCES:
            yield _dig(volume, path)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield _dig(source, ("secret", "name"))


def _dig(obj: Obj, path: tuple[str, ...]) -> str:
    found: object = obj
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
