"""Service accounts: every namespace has a default one, and token secrets follow the account that they are for.

Sources: pkg/controller/serviceaccount/{serviceaccounts,tokens}_controller.go.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator
from typing import Any, Final

from fairlead.api.errors import AlreadyExists, ApiError, is_namespace_terminating
from fairlead.api.meta import Object
from fairlead.api.namespaces import Namespace
from fairlead.api.secrets import SERVICE_ACCOUNT_TOKEN, Secret
from fairlead.controllers.actions import Action, Actions, Create, Delete, Patch
from fairlead.controllers.base import Controller, Watch, World, by_name
from fairlead.controllers.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS

DEFAULT: Final = "default"
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"

#: As long as a token can be asked for: these are meant to last.
_LONGEST_SECONDS: Final = 2**32 - 1


def _namespace_of_default(world: World, old: Object | None, new: Object | None) -> Iterator[str]:
    if new is None and old is not None and old.metadata.name == DEFAULT:
        yield old.metadata.namespace


class DefaultServiceAccounts(Controller[Namespace]):
    name = "serviceaccount-controller"
    queue_name = "serviceaccount"
    account = "service-account-controller"
    kind = NAMESPACES
    watches = (Watch(SERVICE_ACCOUNTS, _namespace_of_default),)

    def reconcile(self, obj: Namespace, world: World) -> Actions:
        namespace = obj.metadata.name
        if obj.metadata.is_terminating or world.get(SERVICE_ACCOUNTS, f"{namespace}/{DEFAULT}") is not None:
            return
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT, "namespace": namespace}}
        try:
            yield Create(SERVICE_ACCOUNTS, account)
        except AlreadyExists:
            return
        except ApiError as error:
            if not is_namespace_terminating(error):
                raise


def _secrets_of(world: World, old: Object | None, new: Object | None) -> Iterator[str]:
    """The token secrets of an account that came, went or was replaced."""
    if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
        return
    either = new or old
    assert either is not None
    for secret in by_name(world.of(SECRETS).index("account", _account_of)[either.metadata.key]):
        yield secret.metadata.key


def _account_of(secret: Secret) -> tuple[str, ...]:
    meta = secret.metadata
    return (f"{meta.namespace}/{meta.annotations.get(NAME, '')}",) if secret.type == SERVICE_ACCOUNT_TOKEN else ()


class TokenSecrets(Controller[Secret]):
    name = "serviceaccount-token-controller"
    queue_name = "serviceaccount_tokens_secret"
    kind = SECRETS
    watches = (Watch(SERVICE_ACCOUNTS, _secrets_of),)

    def concerns(self, old: Secret | None, new: Secret | None, world: World) -> bool:
        return new is not None and new.type == SERVICE_ACCOUNT_TOKEN

    def reconcile(self, obj: Secret, world: World) -> Actions:
        meta = obj.metadata
        name, uid = meta.annotations.get(NAME, ""), meta.annotations.get(UID)
        if obj.type != SERVICE_ACCOUNT_TOKEN or not name or meta.is_terminating:
            return
        account = world.get(SERVICE_ACCOUNTS, f"{meta.namespace}/{name}")
        if account is None or (uid is not None and uid != account.metadata.uid):
            yield Delete(SECRETS, obj)
        elif uid is None:
            token = yield from _token(obj, name)
            data = {"token": _encoded(token), "namespace": _encoded(meta.namespace)}
            patch = {"metadata": {"annotations": {UID: account.metadata.uid}}, "data": data}
            yield Patch(SECRETS, obj, patch, unchanged=True)


def _token(secret: Secret, account: str) -> Generator[Action, Any, str]:
    """Ask the server for a token that is good as long as the secret is there."""
    meta = secret.metadata
    bound = {"apiVersion": "v1", "kind": "Secret", "name": meta.name, "uid": meta.uid}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"namespace": meta.namespace},
        "spec": {"audiences": [], "expirationSeconds": _LONGEST_SECONDS, "boundObjectRef": bound},
    }
    made = yield Create(SERVICE_ACCOUNTS, request, account, "token")
    return str(made.obj()["status"]["token"])


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
