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
    """Masters, then the first that has an opinion decides; the reasons of the others are told together."""

    def __init__(
        self,
        authorizers: Iterable[tuple[str, Authorizer]] = (),
        decided: Callable[[str, str], None] = lambda mode, decision: None,
    ) -> None:
        """Each comes with its mode (`RBAC`); `decided` is told the mode of who has decided, and what."""
        self._decided = decided
        self.choose(authorizers)

    def choose(self, authorizers: Iterable[tuple[str, Authorizer]]) -> None:
        """From now on ask these, in this order."""
        self._authorizers: tuple[tuple[str, Authorizer], ...] = (("", Masters()), *authorizers)

    def decide(self, request: AccessRequest) -> Verdict:
        silent = []
        for mode, authorizer in self._authorizers:
            verdict = authorizer.decide(request)
            if verdict.decision is not Decision.NO_OPINION:
                return self._told(verdict, mode)
            silent.append(verdict)
        return _joined(silent)

    async def authorize(self, request: AccessRequest) -> Verdict:
        silent = []
        for mode, authorizer in self._authorizers:
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
        found = [authorizer.rules_for(user, namespace) for _, authorizer in self._authorizers]
        return UserRules(
            tuple(rule for part in found for rule in part.rules),
            all(part.is_complete for part in found),
            ", ".join(part.error for part in found if part.error),
        )


def _joined(silent: list[Verdict]) -> Verdict:
    reasons = "\n".join(verdict.reason for verdict in silent if verdict.reason)
    errors = ", ".join(verdict.error for verdict in silent if verdict.error)
    return Verdict(Decision.NO_OPINION, reasons, errors) if reasons or errors else NO_OPINION
