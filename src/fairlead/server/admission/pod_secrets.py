"""Which of the secrets that a pod's spec refers to its service account allows.

Only two rules of ServiceAccount admission need it: mirror pods may use no secret at all, and an account with the
annotation kubernetes.io/enforce-mountable-secrets lets its pods use only those that it lists.
Source: plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.object_references import secret_names

#: Container lists of a pod and what the texts call their members.
_INIT, _MAIN, _EPHEMERAL = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


def uses_secrets(spec: Obj) -> bool:
    return any(secret_names(spec))


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
