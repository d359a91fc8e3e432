"""Reviews: questions that are asked by creating an object, and answered in its status. Nothing is stored.

Authorization is not enforced yet: whoever got in is the administrator, and the answers say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.server.context import Write
from fairlead.server.storage.catalogue import Served

if TYPE_CHECKING:
    from fairlead.server.registry.registry import Registry

_EVERYTHING: Obj = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def access_review(
    registry: Registry, served: Served, namespace: str, name: str, body: Obj, write: Write
) -> Encoded:
    """May somebody do something? (SubjectAccessReview and its kin)"""
    return _answered(body, write, {"allowed": True})


async def rules_review(
    registry: Registry, served: Served, namespace: str, name: str, body: Obj, write: Write
) -> Encoded:
    """What may I do? (SelfSubjectRulesReview)"""
    return _answered(body, write, _EVERYTHING)


async def subject_review(
    registry: Registry, served: Served, namespace: str, name: str, body: Obj, write: Write
) -> Encoded:
    """Who am I? (SelfSubjectReview)"""
    user = write.caller.user
    return _answered(body, write, {"userInfo": {"username": user.name, "groups": list(user.groups)}})


async def token_review(
    registry: Registry, served: Served, namespace: str, name: str, body: Obj, write: Write
) -> Encoded:
    """Whose token is this? (TokenReview) Nobody's: no tokens but the administrator's are given out."""
    return _answered(body, write, {"user": {}, "error": "unknown token"})


def _answered(body: Obj, write: Write, status: Obj) -> Encoded:
    row = write.version.resource
    write.judge(write.version.normalise(body), row.kind, row.version)
    return encoded(body | {"kind": row.kind, "apiVersion": row.api_version, "status": status})
