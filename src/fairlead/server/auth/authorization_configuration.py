"""What an AuthorizationConfiguration says (`--authorization-config`), checked and compiled.

Sources: k8s.io/apiserver, pkg/apis/apiserver/{v1,validation} and pkg/authorization/cel (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors, aggregated
from fairlead.api.strict import ConfigurationError, Strict, document, read
from fairlead.cel.environment import Environment, Program
from fairlead.cel.errors import CompileError
from fairlead.cel.types import BOOL, STRING, list_of, map_of
from fairlead.golang.durations import format_seconds, parse_seconds
from fairlead.kinds.admission_expressions import object_of
from fairlead.server.access import Decision

API_VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
#: kube-apiserver's modes. Only webhooks can be there more than once.
MODES: Final = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
ABAC: Final = "ABAC"
ALWAYS_ALLOW: Final = "AlwaysAllow"
WEBHOOK: Final = "Webhook"
VERSIONS: Final = ("v1", "v1beta1")
_FAILURE_POLICIES: Final = {"NoOpinion": Decision.NO_OPINION, "Deny": Decision.DENY}
_CONNECTIONS: Final = ("InClusterConfig", "KubeConfigFile")
_MOST_CONDITIONS: Final = 64
_LONGEST_SECONDS: Final = 30.0


class _Condition(Strict):
    expression: str = ""


class _Connection(Strict):
    type: str = ""
    kube_config_file: str | None = None


class _Webhook(Strict):
    authorized_ttl: str = msgspec.field(default="0s", name="authorizedTTL")
    cache_authorized_requests: bool = True
    unauthorized_ttl: str = msgspec.field(default="0s", name="unauthorizedTTL")
    cache_unauthorized_requests: bool = True
    timeout: str = "0s"
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_info: _Connection = _Connection()
    match_conditions: tuple[_Condition, ...] = ()


class _Authorizer(Strict):
    type: str = ""
    name: str = ""
    webhook: _Webhook | None = None


class _Document(Strict):
    api_version: str = ""
    kind: str = ""
    authorizers: tuple[_Authorizer, ...] = ()


class Webhook(msgspec.Struct, frozen=True):
    """A service that is asked, when, and what counts if it fails. 0 seconds: its answers are not remembered."""

    kubeconfig: Path
    version: str = "v1"
    seconds: float = _LONGEST_SECONDS
    authorized_seconds: float = 300.0
    unauthorized_seconds: float = 30.0
    on_failure: Decision = Decision.NO_OPINION
    conditions: tuple[Program, ...] = ()


class AuthorizerConfiguration(msgspec.Struct, frozen=True):
    """One way to decide; a webhook if it is of that type."""

    type: str
    webhook: Webhook | None = None


def parsed(data: bytes) -> tuple[AuthorizerConfiguration, ...]:
    """The ways to decide that a file lists, in order. ValueError with everything that is wrong with it."""
    found, errors = read(document(data), _Document, ""), Errors()
    if found.api_version not in API_VERSIONS or found.kind != "AuthorizationConfiguration":
        raise ConfigurationError(f'no kind "{found.kind}" is registered for version "{found.api_version}"')
    if not found.authorizers:
        errors.required("authorizers", "at least one authorization mode must be defined")
    configurations = tuple(_authorizers(found.authorizers, errors))
    if errors:
        raise ConfigurationError(aggregated(errors))
    return configurations


def _authorizers(authorizers: Sequence[_Authorizer], errors: Errors) -> Iterator[AuthorizerConfiguration]:
    types, seen_names = set[str](), set[str]()
    for index, authorizer in enumerate(authorizers):
        path, type_ = f"authorizers[{index}]", authorizer.type
        if not type_:
            errors.required(f"{path}.type")
            continue
        if type_ not in MODES:
            errors.not_supported(f"{path}.type", type_, MODES)
            continue
        if type_ in types and type_ != WEBHOOK:
            errors.duplicate(f"{path}.type", type_)
            continue
        types.add(type_)
        _validate_name(authorizer.name, seen_names, f"{path}.name", errors)
        if type_ != WEBHOOK:
            if authorizer.webhook is not None:
                errors.invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook")
            yield AuthorizerConfiguration(type_)
        elif authorizer.webhook is None:
            errors.required(f"{path}.webhook", "required when type=Webhook")
        elif (webhook := _webhook(authorizer.webhook, path, errors)) is not None:
            yield AuthorizerConfiguration(type_, webhook)


def _validate_name(name: str, seen: set[str], path: str, errors: Errors) -> None:
    if not name:
        errors.required(path)
    elif name in seen:
        errors.duplicate(path, name)
    elif faults := names.dns1123_subdomain(name):
        errors.invalid(path, name, f"authorizer name is invalid: {', '.join(faults)}")
    seen.add(name)


def _webhook(found: _Webhook, path: str, errors: Errors) -> Webhook | None:
    """The webhook; None if something is wrong with it. Paths are upstream's, which leave out `webhook`."""
    before = len(errors)
    timeout = _seconds(found.timeout, 0, f"{path}.timeout", errors)
    if timeout == 0:
        errors.required(f"{path}.timeout")
    elif not 0 < timeout <= _LONGEST_SECONDS:
        errors.invalid(f"{path}.timeout", format_seconds(timeout), "must be > 0s and <= 30s")
    authorized = _seconds(found.authorized_ttl, 300, f"{path}.authorizedTTL", errors)
    unauthorized = _seconds(found.unauthorized_ttl, 30, f"{path}.unauthorizedTTL", errors)
    for ttl, name in ((authorized, "authorizedTTL"), (unauthorized, "unauthorizedTTL")):
        if ttl < 0:
            errors.invalid(f"{path}.{name}", format_seconds(ttl), "must be > 0s")
    _validate_version(found.subject_access_review_version, f"{path}.subjectAccessReviewVersion", errors)
    seen_by_conditions = found.match_condition_subject_access_review_version
    here = f"{path}.matchConditionSubjectAccessReviewVersion"
    if not seen_by_conditions:
        if found.match_conditions:
            errors.required(here, "required if match conditions are specified")
    elif seen_by_conditions != "v1":
        errors.not_supported(here, seen_by_conditions, ("v1",))
    if not found.failure_policy:
        errors.required(f"{path}.failurePolicy")
    elif found.failure_policy not in _FAILURE_POLICIES:
        errors.not_supported(f"{path}.failurePolicy", found.failure_policy, _FAILURE_POLICIES, sort=False)
    kubeconfig = _kubeconfig(found.connection_info, f"{path}.connectionInfo", errors)
    conditions = tuple(_conditions(found.match_conditions, f"{path}.matchConditions", errors))
    if kubeconfig is None or len(errors) > before:
        return None
    return Webhook(
        kubeconfig,
        found.subject_access_review_version,
        timeout,
        authorized if found.cache_authorized_requests else 0,
        unauthorized if found.cache_unauthorized_requests else 0,
        _FAILURE_POLICIES[found.failure_policy],
        conditions,
    )


def _seconds(text: str, default: float, path: str, errors: Errors) -> float:
    try:
        return parse_seconds(text) or default
    except ValueError as error:
        errors.invalid(path, text, str(error))
        return default


def _validate_version(version: str, path: str, errors: Errors) -> None:
    if not version:
        errors.required(path)
    elif version not in VERSIONS:
        errors.not_supported(path, version, VERSIONS)


def _kubeconfig(connection: _Connection, path: str, errors: Errors) -> Path | None:
    file, here = connection.kube_config_file, f"{path}.kubeConfigFile"
    if not connection.type:
        errors.required(f"{path}.type")
    elif connection.type not in _CONNECTIONS:
        errors.not_supported(f"{path}.type", connection.type, _CONNECTIONS)
    elif connection.type == "InClusterConfig":
        errors.invalid(f"{path}.type", connection.type, "an API server does not ask itself: use KubeConfigFile")
    elif not file:
        errors.required(here)
    elif not Path(file).is_absolute():
        errors.invalid(here, file, "must be an absolute path")
    elif not Path(file).exists():
        errors.invalid(here, file, f"error loading file: stat {file}: no such file or directory")
    elif not Path(file).is_file():
        errors.invalid(here, file, "must be a regular file")
    else:
        return Path(file)
    return None


# -- conditions


_REQUIREMENT: Final = object_of("kubernetes.SelectorRequirement", key=STRING, operator=STRING, values=list_of(STRING))
_FIELD_SELECTOR: Final = object_of(
    "kubernetes.FieldSelectorAttributes", rawSelector=STRING, requirements=list_of(_REQUIREMENT)
)
_LABEL_SELECTOR: Final = object_of(
    "kubernetes.LabelSelectorAttributes", rawSelector=STRING, requirements=list_of(_REQUIREMENT)
)
_RESOURCE_ATTRIBUTES: Final = object_of(
    "kubernetes.ResourceAttributes",
    namespace=STRING,
    verb=STRING,
    group=STRING,
    version=STRING,
    resource=STRING,
    subresource=STRING,
    name=STRING,
    fieldSelector=_FIELD_SELECTOR,
    labelSelector=_LABEL_SELECTOR,
)
_REQUEST: Final = object_of(
    "kubernetes.SubjectAccessReviewSpec",
    resourceAttributes=_RESOURCE_ATTRIBUTES,
    nonResourceAttributes=object_of("kubernetes.NonResourceAttributes", path=STRING, verb=STRING),
    user=STRING,
    groups=list_of(STRING),
    extra=map_of(STRING, list_of(STRING)),
    uid=STRING,
)
_ENVIRONMENT: Final = Environment({"request": _REQUEST})


def _conditions(conditions: Sequence[_Condition], path: str, errors: Errors) -> Iterator[Program]:
    if len(conditions) > _MOST_CONDITIONS:
        errors.too_many(path, len(conditions), _MOST_CONDITIONS)
        return
    seen = set[str]()
    for index, condition in enumerate(conditions):
        here, source = f"{path}[{index}].expression", condition.expression
        if not source.strip():
            errors.required(here)
        elif source in seen:
            errors.duplicate(here, source)
        else:
            seen.add(source)
            try:
                program = _ENVIRONMENT.compile(source)
            except CompileError as error:
                errors.invalid(here, source, f"{error.step}: {error}")
                continue
            if program.type != BOOL:
                errors.invalid(here, source, f"must evaluate to bool but got {program.type}")
            else:
                yield program
