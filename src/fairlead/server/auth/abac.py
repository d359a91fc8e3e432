"""Authorization by attributes (ABAC): policies in a file, one a line, each of which allows something.

Sources: pkg/auth/authorizer/abac/abac.go, pkg/apis/abac/{v1beta1,v0} (1.36).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.roles import PolicyRule
from fairlead.api.users import AUTHENTICATED, User
from fairlead.golang import yaml as goyaml
from fairlead.server.access import AccessRequest, Decision, UserRules, Verdict
from fairlead.server.auth.authorizer import LocalAuthorizer

_API_VERSION: Final = "abac.authorization.kubernetes.io/v1beta1"
#: bufio.Scanner's: what it does not read.
_LONGEST_LINE: Final = 64 << 10
_ANY: Final = "*"
_READING: Final = ("get", "list", "watch")
_ALLOW: Final = Verdict(Decision.ALLOW)
_NO_MATCH: Final = Verdict(Decision.NO_OPINION, "No policy matched.")

log = logging.getLogger(__name__)


class Policy(msgspec.Struct, frozen=True):
    """Whom it is about, and what they may do. What is empty matches what is empty, `*` everything."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    non_resource_path: str = ""

    def is_about(self, user: User) -> bool:
        """Whom it names; nobody if it names neither a user nor a group."""
        if self.user not in ("", user.name) or (self.group and self.group not in user.groups):
            return False
        return bool(self.user or self.group)

    def allows(self, request: AccessRequest) -> bool:
        """Whether it allows this; subresources are allowed with their resource."""
        if self.readonly and request.verb not in _READING:
            return False
        if not request.is_resource_request:
            return self._allows_path(request.path)
        return (
            self.namespace in (_ANY, request.namespace)
            and self.resource in (_ANY, request.resource)
            and self.api_group in (_ANY, request.group)
        )

    def _allows_path(self, path: str) -> bool:
        allowed = self.non_resource_path
        return allowed in (_ANY, path) or (allowed.endswith(_ANY) and path.startswith(allowed.rstrip(_ANY)))


class AbacAuthorizer(LocalAuthorizer):
    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies = tuple(policies)

    def decide(self, request: AccessRequest) -> Verdict:
        if any(policy.is_about(request.user) and policy.allows(request) for policy in self._policies):
            return _ALLOW
        return _NO_MATCH

    def rules_for(self, user: User, namespace: str) -> UserRules:
        rules = list[PolicyRule]()
        for policy in self._policies:
            if not policy.is_about(user) or policy.namespace not in (_ANY, namespace):
                continue
            verbs = _READING if policy.readonly else (_ANY,)
            if policy.resource:
                rules.append(PolicyRule(verbs=verbs, api_groups=(policy.api_group,), resources=(policy.resource,)))
            if policy.non_resource_path:
                rules.append(PolicyRule(verbs=verbs, urls=(policy.non_resource_path,)))
        return UserRules(tuple(rules))


# -- the file


def load(file: Path) -> tuple[Policy, ...]:
    """The policies of a file; blank lines and comments (`#`) are none. OSError; ValueError names the line."""
    found, unversioned = list[Policy](), False
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if len(line) >= _LONGEST_LINE:
            raise ValueError(f"error reading policy file {file}: bufio.Scanner: token too long")
        if not line.strip() or line.strip().startswith(b"#"):
            continue
        try:
            policy, is_versioned = _policy(line)
        except ValueError as error:
            told = line.removesuffix(b"\r").decode(errors="replace")
            raise ValueError(f"error reading policy file {file}, line {number}: {told}: {error}") from None
        unversioned |= not is_versioned
        found.append(policy)
    if unversioned:
        log.warning("Policy file %s contained unversioned rules", file)
    return tuple(found)


def _policy(line: bytes) -> tuple[Policy, bool]:
    """The policy, and whether it says of which version it is."""
    document, _ = goyaml.parse(line)
    if not isinstance(document, dict):
        raise ValueError(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_kind(document)} into Go value of type struct {{ APIVersion string; Kind string }}"
        )
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not api_version or not kind:
        return _of_any_authenticated(_of_unversioned(_read(document, "Policy", ""))), False
    if (api_version, kind) != (_API_VERSION, "Policy"):
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    spec = document.get("spec") or {}
    if not isinstance(spec, dict):
        raise ValueError(_mismatch(spec, "Policy.spec", "v1beta1.PolicySpec"))
    return _of_any_authenticated(_read(spec, "PolicySpec", "spec.")), True


def _read(fields: Mapping[str, Any], struct: str, path: str) -> Policy:
    def text(name: str) -> str:
        return _typed(fields, name, str, f"{struct}.{path}{name}") or ""

    readonly = bool(_typed(fields, "readonly", bool, f"{struct}.{path}readonly"))
    names = ("apiGroup", "resource", "namespace", "nonResourcePath")
    return Policy(text("user"), text("group"), readonly, *map(text, names))


def _typed(fields: Mapping[str, Any], name: str, type_: type, where: str) -> Any:
    value = fields.get(name)
    if value is not None and type(value) is not type_:
        raise ValueError(_mismatch(value, where, "bool" if type_ is bool else "string"))
    return value


def _mismatch(value: Any, where: str, type_: str) -> str:
    return f"json: cannot unmarshal {_kind(value)} into Go struct field {where} of type {type_}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"


def _of_unversioned(policy: Policy) -> Policy:
    """What policies meant before they had versions: what is empty was everything."""
    is_everything = not policy.namespace and not policy.resource
    return Policy(
        policy.user,
        policy.group if policy.user or policy.group else _ANY,
        policy.readonly,
        _ANY,
        policy.resource or _ANY,
        policy.namespace or _ANY,
        _ANY if is_everything else "",
    )


def _of_any_authenticated(policy: Policy) -> Policy:
    """`*` is everybody who is known, as whatever user or group."""
    return replace(policy, user="", group=AUTHENTICATED) if _ANY in (policy.user, policy.group) else policy
