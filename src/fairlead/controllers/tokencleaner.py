"""Bootstrap tokens go when they expire (pkg/controller/bootstrap/tokencleaner.go, 1.36)."""

from __future__ import annotations

from typing import Final

from fairlead.api import builtin
from fairlead.api.bootstrap_tokens import NAMESPACE, SECRET_TYPE, BootstrapSecret
from fairlead.api.errors import NotFound
from fairlead.api.secrets import Secret
from fairlead.controllers.actions import Actions, Delete, Kind, Read, Requeue
from fairlead.controllers.base import Controller, World
from fairlead.controllers.kinds import SECRETS

#: What is remembered of Secrets has no values, so these are read when they are due.
_WITH_VALUES: Final = Kind(builtin.SECRETS, BootstrapSecret)


class ExpiredBootstrapTokens(Controller[Secret]):
    name = "token-cleaner-controller"
    queue_name = "token_cleaner"
    account = "token-cleaner"
    kind = SECRETS

    def concerns(self, old: Secret | None, new: Secret | None, world: World) -> bool:
        return new is not None and new.type == SECRET_TYPE and new.metadata.namespace == NAMESPACE

    def reconcile(self, obj: Secret, world: World) -> Actions:
        if obj.metadata.is_terminating:
            return
        try:
            secret: BootstrapSecret = yield Read(_WITH_VALUES, obj.metadata.name, NAMESPACE)
        except NotFound:
            return
        if secret.expires is None:
            return
        if secret.expires > world.now:
            yield Requeue(secret.expires - world.now)
        else:
            yield Delete(_WITH_VALUES, secret)
