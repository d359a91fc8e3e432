"""What expressions about a request see, and whether the conditions under which somebody is asked hold.

Source: apiserver/pkg/admission/plugin/cel and webhook/matchconditions (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import AccountName, User
from fairlead.cel.errors import CelError
from fairlead.cel.functions.authorizer import Answer, Authorizer, Question, ResourceCheck
from fairlead.kinds.admission_expressions import Condition
from fairlead.runtime.offload import on_loop
from fairlead.server.access import AccessRequest
from fairlead.server.access import Authorizer as ServerAuthorizer
from fairlead.server.admission.base import Attributes, Reader
from fairlead.server.admission.evaluation import Budget, OutOfBudgetError


def activation(
    attributes: Attributes, row: Resource, shown: tuple[Obj | None, Obj | None], authorizer: ServerAuthorizer
) -> dict[str, Any]:
    """The variables of expressions about a request, which is shown in the version of that row."""
    asked = Authorizer(lambda question: on_loop(lambda: _answer(question, attributes.user, authorizer)))
    requested = attributes.requested
    about = Question(
        group=requested.group,
        resource=requested.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": shown[0],
        "oldObject": shown[1],
        "request": described(attributes, row),
        "namespaceObject": None,
        "authorizer": asked,
        "authorizer.requestResource": ResourceCheck(asked.ask, about),
    }


def namespace_of(attributes: Attributes, reader: Reader) -> Obj | None:
    """The namespace that the object of a request is in."""
    if not attributes.namespace or attributes.resource.qualified == "namespaces":
        return None
    found = reader.find("namespaces", attributes.namespace)
    return found.obj() if found is not None else None


def described(attributes: Attributes, row: Resource) -> Obj:
    """An `AdmissionRequest` without the objects and without its uid."""
    user, requested = attributes.user, attributes.requested
    is_namespace = attributes.resource.qualified == "namespaces"
    return {
        "kind": attributes.kind(row)._asdict(),
        "resource": _resource(row),
        "subResource": attributes.subresource,
        "requestKind": attributes.kind(requested)._asdict(),
        "requestResource": _resource(requested),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.name if is_namespace else attributes.namespace,
        "operation": str(attributes.operation),
        "userInfo": {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        },
        "dryRun": attributes.dry_run,
        "options": attributes.options(),
    }


def _resource(row: Resource) -> Obj:
    return {"group": row.group, "version": row.version, "resource": row.plural}


def all_hold(conditions: Iterable[Condition], variables: Mapping[str, Any], budget: Budget) -> bool:
    """Whether all match conditions hold. One that does not is enough, whatever others fail. Raises CelError.

    All are asked all the same: what they cost counts.
    """
    failures, holds = dict[str, None](), True
    for condition in conditions:
        try:
            holds &= budget.evaluate(condition.program, variables) is True
        except OutOfBudgetError:
            raise
        except CelError as error:
            failures[str(error)] = None
    if failures and holds:
        raise CelError(f"[{', '.join(failures)}]" if len(failures) > 1 else next(iter(failures)))
    return holds


def _answer(question: Question, user: User, authorizer: ServerAuthorizer) -> Answer:
    if question.account:
        namespace, _, name = question.account.partition(":")
        account = AccountName(namespace, name)
        user = User(account.user_name, account.groups)
    verdict = authorizer.decide(
        AccessRequest(
            user,
            question.verb,
            question.group,
            "*",
            question.resource,
            question.subresource,
            question.namespace,
            question.name,
            question.path,
            question.field_selector,
            question.label_selector,
        )
    )
    return Answer(verdict.is_allowed, verdict.reason, verdict.error)
