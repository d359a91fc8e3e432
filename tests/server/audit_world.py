"""A request that the audit log tells of, without a log."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.users import User
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import Level, Stage
from fairlead.server.audit.origin import Origin
from fairlead.server.audit.policy import Decision
from fairlead.server.audit.request_audit import RequestAudit


def a_request(level: Level = Level.METADATA, user: User = User("me")) -> RequestAudit:
    """Made on a loop."""
    origin = Origin(b"1", b"/", b"", b"", b"", b"", "127.0.0.1")
    asked = AccessRequest(user, "create", "", "v1", "configmaps")
    return RequestAudit(origin, asked, Decision(level), lambda told, size: None, is_long_running=False)


def annotations_of(audit: RequestAudit) -> Mapping[str, str]:
    """What was said beside it."""
    return audit.event(Stage.RESPONSE_COMPLETE, 0.0).annotations
