"""Authorization: a list of ways to decide who may do what, asked in order; nobody may do what none of them allows.

Source: k8s.io/apiserver, authorization/union and authorizerfactory (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fairlead.api.users import MASTERS, User
from fairlead.server.access import NO_OPINION, AccessRequest, Authorizer, Decision, UserRules, Verdict

_MASTER: Final = Verdict(Decision.ALLOW)


class LocalAuthorizer:
    """One that decides by what this process knows; subclasses override `decide`."""

    def decide(self, request: AccessRequest) -> Verdict:
        return NO_OPINION

    async def authorize(self, request: AccessRequest) -> Verdict:
        return self.decide(request)

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return UserRules()


class Masters(LocalAuthorizer):
    """`system:masters` may do everything: the way in that no rule can close."""

    def decide(self, request: AccessRequest) -> Verdict:
        return _MASTER if MASTERS in request.user.groups else NO_OPINION


class Authorizers:
    """The first that has an opinion decides; the reasons of the others are told together."""

    def __init__(
        self,
        authorizers: Iterable[Authorizer] = (Masters(),),
        decided: Callable[[str, str], None] = lambda mode, decision: None,
    ) -> None:
        """`decided` is told the mode of who has decided (`RBAC`), and what."""
        self._authorizers: list[tuple[Authorizer, str]] = [(authorizer, "") for authorizer in authorizers]
        self._decided = decided

    def add(self, authorizer: Authorizer, mode: str) -> None:
        """Ask this one too, after all others; it is the one that `--authorization-mode` calls so."""
        self._authorizers.append((authorizer, mode))

    def decide(self, request: AccessRequest) -> Verdict:
        silent = []
        for authorizer, mode in self._authorizers:
            verdict = authorizer.decide(request)
            if verdict.decision is not Decision.NO_OPINION:
                return self._told(verdict, mode)
            silent.append(verdict)
        return _joined(silent)

    async def authorize(self, request: AccessRequest) -> Verdict:
        silent = []
        for authorizer, mode in self._authorizers:
            verdict = await authorizer.authorize(request)
            if verdict.decision is not Decision.NO_OPINION:
                return self._told(verdict, mode)
            silent.append(verdict)
        return _joined(silent)

    def _told(self, verdict: Verdict, mode: str) -> Verdict:
        if mode:
            self._decided(mode, "allowed" if verdict.is_allowed else "denied")
        return verdict

    def rules_for(self, user: User, namespace: str) -> UserRules:
        found = [authorizer.rules_for(user, namespace) for authorizer, _ in self._authorizers]
        return UserRules(
            tuple(rule for part in found for rule in part.rules),
            all(part.is_complete for part in found),
            ", ".join(part.error for part in found if part.error),
        )


def _joined(silent: list[Verdict]) -> Verdict:
    reasons = "\n".join(verdict.reason for verdict in silent if verdict.reason)
    errors = ", ".join(verdict.error for verdict in silent if verdict.error)
    return Verdict(Decision.NO_OPINION, reasons, errors) if reasons or errors else NO_OPINION
