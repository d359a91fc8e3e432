"""What extends the server: webhooks, admission policies and their bindings, and API services."""

from __future__ import annotations

from typing import Final

from fairlead.api import conditions
from fairlead.api.objects import Obj
from fairlead.server.tables.base import AGE, NAME, Column, Printer, Subject, count, field, printer
from fairlead.server.tables.text import UNSET

WEBHOOK_CONFIGURATIONS: Final = printer(
    NAME, Column("Webhooks", count("webhooks"), "How many webhooks it has.", type="integer"), AGE
)


def _param_kind(policy: Subject) -> str:
    found = policy.spec.get("paramKind")
    return UNSET if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"


def _policies(name: str, key: str) -> Printer:
    return printer(
        NAME,
        Column(name, count("spec", key), "How many rules it has.", type="integer"),
        Column("ParamKind", _param_kind, "The kind of its parameters."),
        AGE,
    )


VALIDATING_ADMISSION_POLICIES: Final = _policies("Validations", "validations")
MUTATING_ADMISSION_POLICIES: Final = _policies("Mutations", "mutations")


def _param_ref(binding: Subject) -> str:
    found = binding.spec.get("paramRef") or {}
    if name := found.get("name"):
        return f"{found.get('namespace') or '*'}/{name}"
    selector = found.get("selector")
    return UNSET if selector is None else _go_text(selector)


def _go_text(selector: Obj) -> str:
    """A label selector as Go's generated `String` writes it; upstream prints it like that."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{requirement.get('key', '')},Operator:{requirement.get('operator', '')},"
        f"Values:[{' '.join(requirement.get('values') or ())}],}},"
        for requirement in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


ADMISSION_POLICY_BINDINGS: Final = printer(
    NAME,
    Column("PolicyName", field("spec", "policyName"), "The policy it puts to work."),
    Column("ParamRef", _param_ref, "Where the parameters come from."),
    AGE,
)


def _service(api_service: Subject) -> str:
    found = api_service.spec.get("service")
    return f"{found.get('namespace', '')}/{found.get('name', '')}" if found else "Local"


def _availability(api_service: Subject) -> str:
    found = conditions.find(api_service.status.get("conditions"), "Available")
    if found is None:
        return "Unknown"
    status, reason = found.get("status", ""), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else str(status)


API_SERVICES: Final = printer(
    NAME,
    Column("Service", _service, "Who serves the group version."),
    Column("Available", _availability, "Whether it can be reached."),
    AGE,
)
