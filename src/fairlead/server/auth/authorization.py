"""Who decides what clients may do: the ways that an operator chose, in their order.

Sources: pkg/kubeapiserver/authorizer and k8s.io/apiserver, authorization/authorizerfactory (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead.api.roles import PolicyRule
from fairlead.api.users import User
from fairlead.client.kubeconfig_service import SECONDS
from fairlead.client.reviews import ReviewService
from fairlead.server.access import AccessRequest, Authorizer, Decision, UserRules, Verdict
from fairlead.server.auth.abac import AbacAuthorizer, Policy
from fairlead.server.auth.authorization_configuration import (
    ABAC,
    ALWAYS_ALLOW,
    WEBHOOK,
    AuthorizerConfiguration,
    parsed,
)
from fairlead.server.auth.authorizer import Authorizers, LocalAuthorizer
from fairlead.server.auth.reloading import follow
from fairlead.server.auth.webhooks.access import AccessWebhook

_EVERYTHING: Final = (
    PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), urls=("*",)),
)
_NODE_AND_RBAC: Final = (AuthorizerConfiguration("Node"), AuthorizerConfiguration("RBAC"))
_ALLOW: Final = Verdict(Decision.ALLOW)
#: What is said if ABAC is to decide without its file.
NO_POLICIES: Final = "authorization-mode ABAC's authorization policy file not passed"
_NOTHING: Final = Verdict(Decision.NO_OPINION, "Everything is forbidden.")


class AlwaysAllow(LocalAuthorizer):
    def decide(self, request: AccessRequest) -> Verdict:
        return _ALLOW

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return UserRules(_EVERYTHING)


class AlwaysDeny(LocalAuthorizer):
    def decide(self, request: AccessRequest) -> Verdict:
        return _NOTHING


class AuthorizationFile(msgspec.Struct, frozen=True):
    """An AuthorizationConfiguration, and what it said at the start; what it says at any time counts."""

    path: Path
    data: bytes


class AuthorizationSettings(msgspec.Struct, frozen=True):
    """The ways to decide who may do what, in order."""

    authorizers: tuple[AuthorizerConfiguration, ...] = _NODE_AND_RBAC
    file: AuthorizationFile | None = None
    #: Those of the mode ABAC; None: it cannot be among the authorizers.
    policies: tuple[Policy, ...] | None = None


#: As with `--authorization-mode=Node,RBAC`.
NODE_AND_RBAC: Final = AuthorizationSettings()


class Authorization:
    """Puts the ways to decide into force. ValueError or OSError: a webhook's kubeconfig cannot be used."""

    def __init__(
        self, settings: AuthorizationSettings, authorizers: Authorizers, built_in: Mapping[str, Authorizer]
    ) -> None:
        """`built_in` has those that live with the server, by their modes."""
        self._file, self._authorizers = settings.file, authorizers
        self._built_in = {**built_in, ALWAYS_ALLOW: AlwaysAllow(), "AlwaysDeny": AlwaysDeny()}
        if settings.policies is not None:
            self._built_in[ABAC] = AbacAuthorizer(settings.policies)
        self._webhooks: list[AccessWebhook] = []
        self._retiring = set[asyncio.Task[None]]()
        self._choose(settings.authorizers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with the file while the block runs, and end what is under way after it."""
        file = self._file
        following = asyncio.create_task(follow(file.path, file.data, self._apply)) if file is not None else None
        try:
            yield
        finally:
            tasks = [*self._retiring, *([following] if following is not None else ())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for webhook in self._webhooks:
                await webhook.close()

    def _apply(self, data: bytes) -> None:
        old = self._webhooks
        self._choose(parsed(data))
        for webhook in old:
            task = asyncio.get_running_loop().create_task(_retire(webhook))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def _choose(self, configurations: Sequence[AuthorizerConfiguration]) -> None:
        webhooks, chosen = list[AccessWebhook](), list[tuple[str, Authorizer]]()
        for configuration in configurations:
            if (webhook := configuration.webhook) is not None:
                service = ReviewService(webhook.kubeconfig, webhook.seconds)
                webhooks.append(AccessWebhook(service, webhook))
                chosen.append((WEBHOOK, webhooks[-1]))
            elif (built_in := self._built_in.get(configuration.type)) is not None:
                chosen.append((configuration.type, built_in))
            else:
                assert configuration.type == ABAC
                raise ValueError(NO_POLICIES)
        self._webhooks = webhooks
        self._authorizers.choose(chosen)


async def _retire(webhook: AccessWebhook) -> None:
    """Close one that nobody asks any more, once what is under way has ended."""
    try:
        await asyncio.sleep(SECONDS)
    finally:
        await webhook.close()
