"""CEL about a request to an API server: what expressions know, and the conditions under which something is asked.

Policies and webhooks share them. Source: apiserver/pkg/admission/plugin/cel, webhook/matchconditions and
pkg/apis/admissionregistration/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.names import qualified_name
from fairlead.api.objects import Obj
from fairlead.cel.environment import Environment, Program, WrongTypeError
from fairlead.cel.errors import CompileError, ProgramError
from fairlead.cel.functions.authorizer import AUTHORIZER, RESOURCE_CHECK
from fairlead.cel.types import BOOL, DYN, STRING, ObjectField, ObjectType, Type, list_of, map_of

#: How many characters all expressions of an object may have: to compile them must not hold the loop.
MOST_CHARACTERS: Final = 50_000
_MOST_CONDITIONS: Final = 64


def object_of(type_name: str, /, **fields: Type) -> ObjectType:
    return ObjectType.named(type_name, {field: ObjectField(field, type_) for field, type_ in fields.items()})


_KIND: Final = object_of("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = object_of("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
USER_INFO: Final = object_of(
    "kubernetes.UserInfo", username=STRING, uid=STRING, groups=list_of(STRING), extra=map_of(STRING, list_of(STRING))
)
REQUEST: Final = object_of(
    "kubernetes.AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=USER_INFO,
    dryRun=BOOL,
    options=DYN,
)
_NAMESPACE_META: Final = object_of(
    "kubernetes.NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=map_of(STRING, STRING),
    annotations=map_of(STRING, STRING),
    UID=STRING,
    creationTimestamp=STRING,
    deletionGracePeriodSeconds=DYN,
    deletionTimestamp=STRING,
    generation=DYN,
    resourceVersion=STRING,
    finalizers=list_of(STRING),
)
NAMESPACE: Final = object_of(
    "kubernetes.Namespace",
    metadata=_NAMESPACE_META,
    spec=object_of("kubernetes.NamespaceSpec", finalizers=list_of(STRING)),
    status=object_of("kubernetes.NamespaceStatus", phase=STRING),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A match condition."""

    name: str
    program: Program


def variables_of(has_params: bool, *, has_authorizer: bool = True) -> dict[str, Type]:
    """What expressions know."""
    found: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": REQUEST, "namespaceObject": NAMESPACE}
    if has_params:
        found["params"] = DYN
    if has_authorizer:
        found |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return found


def compile_expression(
    environment: Environment, source: str | None, path: str, errors: Errors, *wanted: Type, missing: str = ""
) -> Program | None:
    """An expression that must be of one of those types; what is wrong with it is added to `errors`."""
    if not (source or "").strip():
        errors.required(path, missing)
        return None
    assert source is not None
    try:
        return environment.compile(source, *wanted)
    except ProgramError as error:
        errors.internal(path, f"{error.step}: {error}")
    except CompileError as error:
        errors.invalid(path, source, f"{error.step}: {error}")
    except WrongTypeError:
        names = " or ".join("bool" if type_ == BOOL else str(type_) for type_ in wanted)
        errors.invalid(path, source, f"must evaluate to {names}")
    return None


def compile_conditions(
    conditions: Sequence[Obj], path: str, errors: Errors, *, has_params: bool = False
) -> tuple[Condition, ...]:
    """The match conditions. One that does not compile is added to `errors` and left out."""
    environment, found = Environment(variables_of(has_params)), []
    for index, condition in enumerate(conditions):
        source = (condition.get("expression") or "").strip()
        if program := compile_expression(environment, source, f"{path}[{index}].expression", errors, BOOL):
            found.append(Condition(condition.get("name", ""), program))
    return tuple(found)


def validate_condition_names(conditions: Sequence[Obj], path: str, errors: Errors) -> None:
    """What must hold of match conditions beside their expressions."""
    if len(conditions) > _MOST_CONDITIONS:
        errors.too_many(path, len(conditions), _MOST_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name, here = condition.get("name") or "", f"{path}[{index}].name"
        if not name:
            errors.required(here)
            continue
        for fault in qualified_name(name):
            errors.invalid(here, name, fault)
        if name in seen:
            errors.duplicate(here, name)
        seen.add(name)
