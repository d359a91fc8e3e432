"""Reviews: questions that are asked by creating an object, and answered in its status. Nothing is stored.

Authorization is not enforced yet: whoever got in is the administrator, and the answers say so.
"""

from __future__ import annotations

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.server.context import Result
from fairlead.server.subresources.action import ActionCall, created

_EVERYTHING: Obj = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def access_review(call: ActionCall) -> Result[Encoded]:
    """May somebody do something? (SubjectAccessReview and its kin)"""
    return _answered(call, {"allowed": True})


async def rules_review(call: ActionCall) -> Result[Encoded]:
    """What may I do? (SelfSubjectRulesReview)"""
    return _answered(call, _EVERYTHING)


async def subject_review(call: ActionCall) -> Result[Encoded]:
    """Who am I? (SelfSubjectReview)"""
    user = call.request.context.user
    return _answered(call, {"userInfo": {"username": user.name, "groups": list(user.groups)}})


async def token_review(call: ActionCall) -> Result[Encoded]:
    """Whose token is this? (TokenReview) Nobody's: no tokens but the administrator's are given out."""
    return _answered(call, {"user": {}, "error": "unknown token"})


def _answered(call: ActionCall, status: Obj) -> Result[Encoded]:
    version = call.request.version
    row = version.resource
    warnings = call.request.apply_field_validation(version.normalise(call.body), row.kind, row.version)
    return created(call.body | {"kind": row.kind, "apiVersion": row.api_version, "status": status}, warnings)
