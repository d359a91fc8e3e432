"""Reviews of who somebody is. Nothing is stored."""

from __future__ import annotations

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.server.context import Result
from fairlead.server.subresources.action import ActionCall, answered


async def subject_review(call: ActionCall) -> Result[Encoded]:
    """Who am I? (SelfSubjectReview)"""
    user = call.request.context.user
    info: Obj = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra}
    return answered(call, {"userInfo": {key: value for key, value in info.items() if value}}, call.normalise_body())
