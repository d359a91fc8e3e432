"""Bootstrap tokens: they go when they expire, and sign what a machine must know of the cluster before it trusts it.

Source: pkg/controller/bootstrap (1.36).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Generator, Iterator
from typing import Any, Final

from fairlead.api import builtin
from fairlead.api.bootstrap_tokens import NAME_PREFIX, NAMESPACE, SECRET_TYPE, BootstrapSecret
from fairlead.api.configmaps import ConfigMap
from fairlead.api.errors import NotFound
from fairlead.api.secrets import Secret
from fairlead.controllers.actions import Action, Actions, Delete, Kind, Patch, Read, Requeue
from fairlead.controllers.base import Controller, Watch, World, by_name
from fairlead.controllers.kinds import CONFIG_MAPS, SECRETS

#: What is remembered of Secrets has no values, so these are read when they are needed.
_WITH_VALUES: Final = Kind(builtin.SECRETS, BootstrapSecret)
#: What is signed: a kubeconfig without a user, for everybody to read.
_CLUSTER_INFO: Final = "kube-public/cluster-info"
_KUBECONFIG: Final = "kubeconfig"
_SIGNATURE_PREFIX: Final = "jws-kubeconfig-"


def _is_bootstrap_token(secret: Secret | None) -> bool:
    return secret is not None and secret.type == SECRET_TYPE and secret.metadata.namespace == NAMESPACE


class ExpiredBootstrapTokens(Controller[Secret]):
    name = "token-cleaner-controller"
    account = "token-cleaner"
    kind = SECRETS

    def concerns(self, old: Secret | None, new: Secret | None, world: World) -> bool:
        return _is_bootstrap_token(new)

    def reconcile(self, obj: Secret, world: World) -> Actions:
        if obj.metadata.is_terminating:
            return
        secret = yield from _read(obj)
        if secret is None or secret.expires is None:
            return
        if secret.expires > world.now:
            yield Requeue(secret.expires - world.now)
        else:
            yield Delete(_WITH_VALUES, secret)


def _signed(world: World, old: Secret | None, new: Secret | None) -> Iterator[str]:
    if _is_bootstrap_token(old) or _is_bootstrap_token(new):
        yield _CLUSTER_INFO


def _marked(secret: Secret) -> tuple[str, ...]:
    return (SECRET_TYPE,) if _is_bootstrap_token(secret) else ()


class SignedClusterInfo(Controller[ConfigMap]):
    name = "bootstrap-signer-controller"
    account = "bootstrap-signer"
    kind = CONFIG_MAPS
    watches = (Watch(SECRETS, _signed),)

    def concerns(self, old: ConfigMap | None, new: ConfigMap | None, world: World) -> bool:
        return new is not None and new.metadata.key == _CLUSTER_INFO

    def reconcile(self, obj: ConfigMap, world: World) -> Actions:
        content = obj.data.get(_KUBECONFIG)
        if obj.metadata.key != _CLUSTER_INFO or content is None:
            return
        signatures: dict[str, str] = {}
        for known in by_name(world.of(SECRETS).index("bootstrap", _marked)[SECRET_TYPE]):
            secret = yield from _read(known)
            if secret is not None and _may_sign(secret, world.now):
                token_id = secret.value("token-id")
                signatures[_SIGNATURE_PREFIX + token_id] = signature(content, token_id, secret.value("token-secret"))
        old = {key: value for key, value in obj.data.items() if key.startswith(_SIGNATURE_PREFIX)}
        if old != signatures:
            yield Patch(CONFIG_MAPS, obj, {"data": dict.fromkeys(old) | signatures}, unchanged=True)


def _may_sign(secret: BootstrapSecret, now: float) -> bool:
    token_id = secret.value("token-id")
    if not token_id or secret.metadata.name != NAME_PREFIX + token_id or not secret.value("token-secret"):
        return False
    return (secret.expires is None or secret.expires > now) and secret.value("usage-bootstrap-signing") == "true"


def signature(content: str, token_id: str, secret: str) -> str:
    """A detached JSON Web Signature (RFC 7515, appendix F) by the secret of a token."""
    header = _base64(f'{{"alg":"HS256","kid":"{token_id}"}}'.encode())
    signed = f"{header}.{_base64(content.encode())}".encode()
    return f"{header}..{_base64(hmac.digest(secret.encode('utf-8', 'surrogateescape'), signed, 'sha256'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read(secret: Secret) -> Generator[Action, Any, BootstrapSecret | None]:
    """The Secret with its values, if it is still there."""
    try:
        found: BootstrapSecret = yield Read(_WITH_VALUES, secret.metadata.name, NAMESPACE)
    except NotFound:
        return None
    return found
