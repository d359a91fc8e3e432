"""ServiceAccount: gives every pod a service account, and mounts its token.

A pod that names no account runs as `default`; the token arrives as a projected volume, so that it can be bound to the
pod and rotated. Source: plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio

from fairlead.api.configmaps import ROOT_CERTIFICATES
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj, metadata
from fairlead.golang.quoting import go_quote
from fairlead.kinds.podspec.annotations import is_mirror
from fairlead.kinds.serviceaccounts import ENFORCE
from fairlead.runtime import rng
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation
from fairlead.server.admission.pod_secrets import first_secret_not_allowed, uses_secrets

DEFAULT_ACCOUNT = "default"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME_PREFIX = "kube-api-access-"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})

#: The default account is made by a controller just after its namespace: wait for it a little.
_ATTEMPTS_FOR_DEFAULT = 10


class _Reference(View):
    name: str = ""


class Account(Object):
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[_Reference, ...] = ()
    secrets: tuple[_Reference, ...] = ()

    @property
    def limits_secrets(self) -> bool:
        return self.metadata.annotations.get(ENFORCE) in _TRUE


class ServiceAccount(AdmissionPlugin):
    name = "ServiceAccount"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "ephemeralcontainers"})

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is not Operation.CREATE or attributes.subresource or is_mirror(attributes.obj):
            return
        spec = attributes.spec
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes, name)
        if spec.get("automountServiceAccountToken", account.automount_service_account_token) is not False:
            mount_token(spec)
        if account.image_pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]

    async def validate(self, attributes: Attributes) -> None:
        is_create = attributes.operation is Operation.CREATE
        if is_create == bool(attributes.subresource):
            return
        if is_create and is_mirror(attributes.obj):
            _check_mirror(attributes)
            return
        name = attributes.spec.get("serviceAccountName")
        if not name:
            pod = f"{attributes.namespace}/{metadata(attributes.obj).get('name', '')}"
            raise attributes.forbidden(f"no service account specified for pod {pod}")
        account = await self._account(attributes, name)
        if account.limits_secrets and (
            why := first_secret_not_allowed(
                attributes.spec,
                account.metadata.name,
                mountable={secret.name for secret in account.secrets},
                pullable={secret.name for secret in account.image_pull_secrets},
                ephemeral_only=not is_create,
            )
        ):
            raise attributes.forbidden(why)

    async def _account(self, attributes: Attributes, name: str) -> Account:
        attempts = _ATTEMPTS_FOR_DEFAULT if name == DEFAULT_ACCOUNT else 1
        pause = rng.source().uniform(0.1, 0.2)
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(pause)
            found = self._reader.find("serviceaccounts", name, attributes.namespace)
            if found is not None:
                return found.kept_view(Account)
        raise attributes.forbidden(
            f"error looking up service account {attributes.namespace}/{name}: serviceaccount {go_quote(name)} not found"
        )


def mount_token(spec: Obj) -> None:
    """Mount the token into every container that has nothing mounted in its place."""
    volumes = spec.get("volumes") or []
    existing = next((v["name"] for v in volumes if v.get("name", "").startswith(_VOLUME_PREFIX)), None)
    volume = existing or _VOLUME_PREFIX + rng.name_suffix()
    is_mounted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != TOKEN_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}]
            is_mounted = True
    if is_mounted and not existing:
        spec["volumes"] = [*volumes, {"name": volume, "projected": _token_source()}]


def _token_source() -> Obj:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            # an hour and seven seconds: the odd value tells this token from one that somebody asked for
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": ROOT_CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 0o644,
    }


def _check_mirror(attributes: Attributes) -> None:
    """Mirror pods may not name service accounts or secrets: a node could reach them that way."""
    spec = attributes.spec
    if spec.get("serviceAccountName"):
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    if uses_secrets(spec):
        raise attributes.forbidden("a mirror pod may not reference secrets")
    projections = (
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    )
    if any("serviceAccountToken" in source for source in projections):
        raise attributes.forbidden("a mirror pod may not use ServiceAccountToken volume projections")
