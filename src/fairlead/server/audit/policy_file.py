"""An audit policy as it is written: a `Policy` of audit.k8s.io/v1, and kube-apiserver's complaints about one.

Sources: k8s.io/apiserver, pkg/audit/policy/reader.go, pkg/apis/audit/validation (1.36).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, dataclass_transform

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors, aggregated
from fairlead.golang import yaml as goyaml
from fairlead.golang.quoting import go_quote
from fairlead.server.audit.event import API_VERSION, LEVEL_NAMES, Level, Stage
from fairlead.server.audit.policy import Decision, GroupResources, Policy, Rule

_STAGES: Final = tuple(Stage)
#: Where upstream keeps its kinds; its error tells.
_SCHEME: Final = "k8s.io/apiserver/pkg/audit/scheme.go:30"

log = logging.getLogger(__name__)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _Lenient(msgspec.Struct, frozen=True, rename="camel"):
    """Read with what is unknown left out: a typo in a policy is warned of, so that a newer policy can be used."""


class _GroupResources(_Lenient):
    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class _Rule(_Lenient):
    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[_GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class _Document(_Lenient):
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}
    rules: tuple[_Rule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False


def load(file: Path) -> Policy:
    """The policy in the file. ValueError, in kube-apiserver's words, if there is none."""
    try:
        body = file.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ValueError(
            f"loading audit policy file: failed to read file path {go_quote(str(file))}: open {file}: {why}"
        ) from None
    try:
        return parse(body)
    except ValueError as error:
        raise ValueError(f"loading audit policy file: {error}: from file {file}") from None


def parse(body: bytes) -> Policy:
    """The policy that a YAML or JSON text describes; ValueError says what is wrong with it."""
    document = _document(body)
    errors = _problems(document)
    if errors:
        raise ValueError(aggregated(errors))
    if not document.rules:
        raise ValueError("loaded illegal policy with 0 rules")
    everywhere = frozenset(map(Stage, document.omit_stages))
    otherwise = Decision(Level.NONE, everywhere, document.omit_managed_fields)
    return Policy([_rule(rule, otherwise) for rule in document.rules], otherwise)


def _document(body: bytes) -> _Document:
    try:
        value, repeated = goyaml.parse(body)
        if not isinstance(value, dict):
            raise ValueError("couldn't get version/kind; json parse error: not an object")
        _check_kind(value, body.decode("utf-8", "replace"))
        document = msgspec.convert(_without_nulls(value), _Document)
    except ValueError as error:  # MalformedYaml and ValidationError are such
        raise ValueError(f"failed decoding: {error}") from None
    problems = [*repeated, *(f"unknown field {go_quote(path)}" for path in _unknown(value, _Document, ""))]
    if problems:
        told = f"strict decoding error: {', '.join(problems)}"
        log.warning("Audit policy contains errors, falling back to lenient decoding: %s", told)
    return document


def _check_kind(value: Mapping[str, Any], text: str) -> None:
    version, kind = value.get("apiVersion"), value.get("kind")
    for field, found in (("Kind", kind), ("apiVersion", version)):
        if not found:
            raise ValueError(f"Object '{field}' is missing in '{text}'")
    if version != API_VERSION or kind != "Policy":
        raise ValueError(f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"')


def _without_nulls(value: Any) -> Any:
    """To Go a null is as good as nothing."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _unknown(value: Mapping[str, Any], type_: type[_Lenient], path: str) -> Iterator[str]:
    """The paths of fields that there are not."""
    known = {field.encode_name for field in msgspec.structs.fields(type_)}
    yield from (f"{path}{key}" for key in value if key not in known)
    inner: type[_Lenient] = _Rule if type_ is _Document else _GroupResources
    key = "rules" if type_ is _Document else "resources"
    if type_ is not _GroupResources:
        for index, item in enumerate(value.get(key) or ()):
            yield from _unknown(item, inner, f"{path}{key}[{index}].")


def _rule(rule: _Rule, default: Decision) -> Rule:
    omits = default.omits_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields
    stages = default.omitted_stages.union(map(Stage, rule.omit_stages))
    return Rule(
        Decision(Level(LEVEL_NAMES.index(rule.level)), stages, omits),
        frozenset(rule.users),
        frozenset(rule.user_groups),
        frozenset(rule.verbs),
        tuple(GroupResources(of.group, of.resources, frozenset(of.resource_names)) for of in rule.resources),
        frozenset(rule.namespaces),
        rule.non_resource_urls,
    )


# -- what is wrong with it


def _problems(document: _Document) -> Errors:
    errors = Errors()
    _check_stages(document.omit_stages, "omitStages", errors)
    for index, rule in enumerate(document.rules):
        _check_rule(rule, f"rules[{index}]", errors)
    return errors


def _check_rule(rule: _Rule, path: str, errors: Errors) -> None:
    if not rule.level:
        errors.required(f"{path}.level")
    elif rule.level not in LEVEL_NAMES:
        errors.not_supported(f"{path}.level", rule.level, LEVEL_NAMES, sort=False)
    _check_urls(rule.non_resource_urls, f"{path}.nonResourceURLs", errors)
    _check_resources(rule.resources, f"{path}.resources", errors)
    _check_stages(rule.omit_stages, f"{path}.omitStages", errors)
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        errors.invalid(f"{path}.nonResourceURLs", rule.non_resource_urls, text)


def _check_urls(urls: Sequence[str], path: str, errors: Errors) -> None:
    for index, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            errors.invalid(f"{path}[{index}]", url, "non-resource URL rules must begin with a '/' character")
        if "*" in url[:-1]:
            text = "non-resource URL wildcards '*' must be the final character of the rule"
            errors.invalid(f"{path}[{index}]", url, text)


def _check_resources(resources: Iterable[_GroupResources], path: str, errors: Errors) -> None:
    for of in resources:
        if of.group not in ("", "*") and (wrong := names.dns1123_subdomain(of.group)):
            errors.invalid(f"{path}.group", of.group, ",".join(wrong))
        if of.resource_names and not of.resources:
            errors.invalid(
                f"{path}.resourceNames", of.resource_names, "using resourceNames requires at least one resource"
            )


def _check_stages(stages: Sequence[str], path: str, errors: Errors) -> None:
    for index, stage in enumerate(stages):
        if stage not in _STAGES:
            errors.invalid(f"{path}[{index}]", stage, f"allowed stages are {','.join(_STAGES)}")
