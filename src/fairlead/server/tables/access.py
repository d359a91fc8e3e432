"""Who may do what: role bindings, and the certificates by which clients are known."""

from __future__ import annotations

from typing import Final

from fairlead.server.tables.base import AGE, NAME, Column, Subject, field, printer
from fairlead.server.tables.text import NONE, human_duration


def _role(binding: Subject) -> str:
    found = binding.obj.get("roleRef") or {}
    return f"{found.get('kind', '')}/{found.get('name', '')}"


def _subjects(binding: Subject, kind: str) -> str:
    found = [subject for subject in binding.obj.get("subjects") or () if subject.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in found)
    return ", ".join(subject.get("name", "") for subject in found)


BINDINGS: Final = printer(
    NAME,
    Column("Role", _role, "The role it grants."),
    AGE,
    Column("Users", lambda it: _subjects(it, "User"), "Users who get it.", priority=1),
    Column("Groups", lambda it: _subjects(it, "Group"), "Groups that get it.", priority=1),
    Column("ServiceAccounts", lambda it: _subjects(it, "ServiceAccount"), "Service accounts that get it.", priority=1),
)


def _requested_duration(request: Subject) -> str:
    seconds = request.spec.get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _condition(request: Subject) -> str:
    """A request can be approved and denied at once; then it is denied."""
    kinds = {condition.get("type") for condition in request.status.get("conditions") or ()}
    words = [next((word for word in ("Denied", "Approved") if word in kinds), "Pending")]
    if "Failed" in kinds:
        words.append("Failed")
    if request.status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


CERTIFICATE_SIGNING_REQUESTS: Final = printer(
    NAME,
    AGE,
    Column("SignerName", lambda it: it.spec.get("signerName") or NONE, "Who is asked to sign."),
    Column("Requestor", field("spec", "username"), "Who asks."),
    Column("RequestedDuration", _requested_duration, "How long the certificate should be good."),
    Column("Condition", _condition, "What became of the request."),
)
