"""ServiceAccount: the old list of secrets is kept but no longer used.

Source: pkg/registry/core/serviceaccount/strategy.go (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj, metadata
from fairlead.kinds.strategy import MetaCheck, Strategy

ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_ADVICE: Final = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"


class ServiceAccountStrategy(Strategy):
    meta_checks = (MetaCheck.CHANGE, MetaCheck.WHOLE)
    returns_deleted = True

    def prepare_create(self, obj: Obj) -> None:
        """Secrets are of the same namespace: their names say it all."""
        if secrets := obj.get("secrets"):
            obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        self.prepare_create(obj)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        if _wants_enforcement(obj) and not (old and _wants_enforcement(old)):
            return [f"metadata.annotations[{ENFORCE}]: {_ADVICE}"]
        return []


def _wants_enforcement(obj: Obj) -> bool:
    return (metadata(obj).get("annotations") or {}).get(ENFORCE) == "true"
