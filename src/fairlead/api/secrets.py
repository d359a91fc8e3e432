"""Secrets as the controller of service account tokens sees them: never their values."""

from __future__ import annotations

from fairlead.api.meta import Object

SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"


class Secret(Object):
    type: str = ""
