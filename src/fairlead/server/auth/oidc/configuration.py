"""What an AuthenticationConfiguration says (`--authentication-config`), checked and compiled.

Sources: k8s.io/apiserver, pkg/apis/apiserver/{v1,validation} and pkg/authentication/cel (1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors, aggregated
from fairlead.api.strict import ConfigurationError, Strict, document, read
from fairlead.cel.environment import Environment, Program
from fairlead.cel.errors import CompileError
from fairlead.cel.parsing import parse
from fairlead.cel.syntax import Ident, Node, Select, parts
from fairlead.cel.types import BOOL, DYN, STRING, map_of
from fairlead.client.kubeconfig import Access
from fairlead.client.tls import tls_of
from fairlead.golang import urls
from fairlead.kinds.admission_expressions import USER_INFO

API_VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_MOST_ISSUERS: Final = 64
_MATCH_ANY: Final = "MatchAny"
_EMAIL_IS_NOT_VERIFIED: Final = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
    "claimMappings.username.expression"
)


class Issuer(Strict):
    """Who signs, and for whom."""

    url: str = ""
    discovery_url: str = msgspec.field(default="", name="discoveryURL")
    certificate_authority: str = ""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""
    egress_selector_type: str = ""


class ClaimRule(Strict):
    """What must hold of claims: that one has a value, or an expression."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class Mapping(Strict):
    """Where something of a user comes from: a claim with a prefix, or an expression."""

    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class PlainMapping(Strict):
    """The same without a prefix."""

    claim: str = ""
    expression: str = ""


class ExtraMapping(Strict):
    key: str = ""
    value_expression: str = ""


class ClaimMappings(Strict):
    username: Mapping = Mapping()
    groups: Mapping = Mapping()
    uid: PlainMapping = PlainMapping()
    extra: tuple[ExtraMapping, ...] = ()


class UserRule(Strict):
    expression: str = ""
    message: str = ""


class JwtConfiguration(Strict):
    """How the tokens of one issuer are read."""

    issuer: Issuer = Issuer()
    claim_validation_rules: tuple[ClaimRule, ...] = ()
    claim_mappings: ClaimMappings = ClaimMappings()
    user_validation_rules: tuple[UserRule, ...] = ()


class _Condition(Strict):
    path: str = ""


class _Anonymous(Strict):
    enabled: bool = False
    conditions: tuple[_Condition, ...] = ()


class _Document(Strict):
    api_version: str = ""
    kind: str = ""
    jwt: tuple[JwtConfiguration, ...] | None = None
    anonymous: _Anonymous | None = None


class Rule(msgspec.Struct, frozen=True):
    """An expression that must be true, and what is told if it is not."""

    program: Program
    message: str

    @property
    def failure(self) -> str:
        return f"validation expression '{self.program.source}' failed: {self.message}"


class JwtIssuer(msgspec.Struct, frozen=True):
    """One issuer, with its expressions compiled."""

    configuration: JwtConfiguration
    username: Program | None = None
    groups: Program | None = None
    uid: Program | None = None
    extra: tuple[tuple[str, Program], ...] = ()
    claim_rules: tuple[Rule, ...] = ()
    user_rules: tuple[Rule, ...] = ()

    @property
    def uses_expressions(self) -> bool:
        """Whether expressions look at claims."""
        return any((self.username, self.groups, self.uid, self.extra, self.claim_rules))


class AuthenticationConfiguration(msgspec.Struct, frozen=True):
    issuers: tuple[JwtIssuer, ...] = ()
    #: Whether somebody without credentials comes in, and to which paths alone; None: it is not said.
    allows_anonymous: bool | None = None
    anonymous_paths: frozenset[str] = frozenset()


def parsed(data: bytes, disallowed_issuers: Collection[str]) -> AuthenticationConfiguration:
    """What a file says. ValueError with everything that is wrong with it."""
    found, errors = read(document(data), _Document, ""), Errors()
    if found.api_version not in API_VERSIONS or found.kind != "AuthenticationConfiguration":
        raise ConfigurationError(f'no kind "{found.kind}" is registered for version "{found.api_version}"')
    issuers = compile_issuers(found.jwt or (), disallowed_issuers, errors)
    anonymous = found.anonymous
    if anonymous is not None and not anonymous.enabled and anonymous.conditions:
        text = "enabled should be set to true when conditions are defined"
        errors.invalid("anonymous.conditions", msgspec.to_builtins(anonymous.conditions), text)
    refuse(errors)
    if anonymous is None:
        return AuthenticationConfiguration(issuers)
    return AuthenticationConfiguration(issuers, anonymous.enabled, frozenset(c.path for c in anonymous.conditions))


def refuse(errors: Errors) -> None:
    """Raise ConfigurationError with all of them, if there are any."""
    if errors:
        raise ConfigurationError(aggregated(errors))


def compile_issuers(
    configurations: Sequence[JwtConfiguration], disallowed: Collection[str], errors: Errors
) -> tuple[JwtIssuer, ...]:
    """The issuers; what is wrong with them is added to `errors`."""
    if len(configurations) > _MOST_ISSUERS:
        errors.too_many("jwt", len(configurations), _MOST_ISSUERS)
        return ()
    urls, discovery_urls, issuers = set[str](), set[str](), []
    for index, configuration in enumerate(configurations):
        path, issuer = f"jwt[{index}]", configuration.issuer
        _validate_issuer(issuer, disallowed, f"{path}.issuer", errors)
        issuers.append(_Compiler(configuration, path, errors).compile())
        if issuer.url in urls:
            errors.duplicate(f"{path}.issuer.url", issuer.url)
        urls.add(issuer.url)
        if issuer.discovery_url and issuer.discovery_url in discovery_urls:
            errors.duplicate(f"{path}.issuer.discoveryURL", issuer.discovery_url)
        discovery_urls.add(issuer.discovery_url)
    return tuple(issuers)


# -- the issuer


def _validate_issuer(issuer: Issuer, disallowed: Collection[str], path: str, errors: Errors) -> None:
    if not issuer.url:
        errors.required(f"{path}.url")
    else:
        _validate_url(issuer.url, disallowed, f"{path}.url", errors)
    if issuer.discovery_url:
        if issuer.url and issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
            errors.invalid(f"{path}.discoveryURL", issuer.discovery_url, "discoveryURL must be different from URL")
        _validate_url(issuer.discovery_url, (), f"{path}.discoveryURL", errors)
    _validate_audiences(issuer, path, errors)
    if issuer.certificate_authority and not _are_certificates(issuer.certificate_authority):
        text = "data does not contain any valid RSA or ECDSA certificates"
        errors.invalid(f"{path}.certificateAuthority", "<omitted>", text)
    if issuer.egress_selector_type:
        text = "egress selectors are not there: the server calls issuers directly"
        errors.invalid(f"{path}.egressSelectorType", issuer.egress_selector_type, text)


def _validate_url(text: str, disallowed: Collection[str], path: str, errors: Errors) -> None:
    if text in disallowed:
        listed = " ".join(sorted(disallowed))
        errors.invalid(path, text, f"URL must not overlap with disallowed issuers: [{listed}]")
    try:
        url = urls.parse(text)
    except urls.MalformedUrl as error:
        errors.invalid(path, text, str(error))
        return
    if url.scheme != "https":
        errors.invalid(path, text, "URL scheme must be https")
    if url.user is not None:
        errors.invalid(path, text, "URL must not contain a username or password")
    if url.query:
        errors.invalid(path, text, "URL must not contain a query")
    if url.fragment:
        errors.invalid(path, text, "URL must not contain a fragment")


def _validate_audiences(issuer: Issuer, path: str, errors: Errors) -> None:
    audiences, policy = issuer.audiences, issuer.audience_match_policy
    if not audiences:
        errors.required(f"{path}.audiences", f"at least one {path}.audiences is required")
        return
    seen = set[str]()
    for index, audience in enumerate(audiences):
        if not audience:
            errors.required(f"{path}.audiences[{index}]")
        if audience in seen:
            errors.duplicate(f"{path}.audiences[{index}]", audience)
        seen.add(audience)
    if len(audiences) > 1 and policy != _MATCH_ANY:
        text = "audienceMatchPolicy must be MatchAny for multiple audiences"
        errors.invalid(f"{path}.audienceMatchPolicy", policy, text)
    if len(audiences) == 1 and policy not in ("", _MATCH_ANY):
        text = "audienceMatchPolicy must be empty or MatchAny for single audience"
        errors.invalid(f"{path}.audienceMatchPolicy", policy, text)


def _are_certificates(pem: str) -> bool:
    try:
        tls_of(Access("", ca=pem.encode()))
    except ValueError:
        return False
    return True


# -- claims and users


class _Compiler:
    """Checks and compiles what is said about the claims of one issuer, in upstream's order."""

    def __init__(self, configuration: JwtConfiguration, path: str, errors: Errors) -> None:
        self._configuration, self._path, self._errors = configuration, path, errors
        self._uses_email = self._uses_email_verified = False

    def compile(self) -> JwtIssuer:
        found, mappings = self._configuration, self._configuration.claim_mappings
        path = f"{self._path}.claimMappings"
        claim_rules = tuple(self._claim_rules(found.claim_validation_rules, f"{self._path}.claimValidationRules"))
        username = self._mapping(mappings.username, f"{path}.username", is_required=True)
        if username is not None:
            self._uses_email = selects(username.source, "email")
            self._note_email_verified(username)
        groups = self._mapping(mappings.groups, f"{path}.groups")
        uid = self._uid(mappings.uid, f"{path}.uid")
        extra = tuple(self._extra(mappings.extra, f"{path}.extra"))
        if self._uses_email and not self._uses_email_verified:
            source = mappings.username.expression
            self._errors.invalid(f"{path}.username.expression", source, _EMAIL_IS_NOT_VERIFIED)
        user_rules = tuple(self._user_rules(found.user_validation_rules, f"{self._path}.userValidationRules"))
        return JwtIssuer(found, username, groups, uid, extra, claim_rules, user_rules)

    def _claim_rules(self, rules: Sequence[ClaimRule], path: str) -> Iterator[Rule]:
        claims, expressions, errors = set[str](), set[str](), self._errors
        for index, rule in enumerate(rules):
            here = f"{path}[{index}]"
            if rule.claim and rule.expression:
                errors.invalid(here, rule.claim, "claim and expression can't both be set")
            elif rule.claim:
                if rule.message:
                    errors.invalid(f"{here}.message", rule.message, "may not be specified when claim is set")
                if rule.claim in claims:
                    errors.duplicate(f"{here}.claim", rule.claim)
                claims.add(rule.claim)
            elif rule.expression:
                if rule.required_value:
                    text = "may not be specified when expression is set"
                    errors.invalid(f"{here}.requiredValue", rule.required_value, text)
                if rule.expression in expressions:
                    errors.duplicate(f"{here}.expression", rule.expression)
                    continue
                expressions.add(rule.expression)
                if program := _compiled(_CLAIMS, rule.expression, f"{here}.expression", errors, is_bool=True):
                    self._note_email_verified(program)
                    yield Rule(program, rule.message)
            else:
                errors.required(here, "claim or expression is required")

    def _mapping(self, mapping: Mapping, path: str, *, is_required: bool = False) -> Program | None:
        errors = self._errors
        if mapping.expression and mapping.claim:
            errors.invalid(path, "", "claim and expression can't both be set")
        elif mapping.expression:
            if mapping.prefix is not None:
                errors.invalid(f"{path}.prefix", mapping.prefix, "may not be specified when expression is set")
            return _compiled(_CLAIMS, mapping.expression, f"{path}.expression", errors)
        elif mapping.claim:
            if mapping.prefix is None:
                text = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
                errors.required(f"{path}.prefix", text)
        elif is_required:
            errors.required(path, "claim or expression is required")
        return None

    def _uid(self, mapping: PlainMapping, path: str) -> Program | None:
        if mapping.claim and mapping.expression:
            self._errors.invalid(path, "", "claim and expression can't both be set")
        elif mapping.expression:
            return _compiled(_CLAIMS, mapping.expression, f"{path}.expression", self._errors)
        return None

    def _extra(self, mappings: Sequence[ExtraMapping], path: str) -> Iterator[tuple[str, Program]]:
        seen, errors = set[str](), self._errors
        for index, mapping in enumerate(mappings):
            here, key = f"{path}[{index}]", mapping.key
            _validate_extra_key(key, f"{here}.key", errors)
            if key in seen:
                errors.duplicate(f"{here}.key", key)
                continue
            seen.add(key)
            if not mapping.value_expression:
                errors.required(f"{here}.valueExpression")
                continue
            if program := _compiled(_CLAIMS, mapping.value_expression, f"{here}.valueExpression", errors):
                self._note_email_verified(program)
                yield key, program

    def _user_rules(self, rules: Sequence[UserRule], path: str) -> Iterator[Rule]:
        seen, errors = set[str](), self._errors
        for index, rule in enumerate(rules):
            here = f"{path}[{index}].expression"
            if not rule.expression:
                errors.required(here)
            elif rule.expression in seen:
                errors.duplicate(here, rule.expression)
            elif program := _compiled(_USER, rule.expression, here, errors, is_bool=True):
                yield Rule(program, rule.message)
            seen.add(rule.expression)

    def _note_email_verified(self, program: Program) -> None:
        self._uses_email_verified = self._uses_email_verified or selects(program.source, "email_verified")


def _validate_extra_key(key: str, path: str, errors: Errors) -> None:
    if not key:
        errors.required(path)
    else:
        for value, text in names.domain_prefixed_path(key):
            errors.invalid(path, value, text)
    if key != key.lower():
        errors.invalid(path, key, "must be lowercase")
    domain = key.partition("/")[0] if "/" in key else ""
    if f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
        text = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        errors.invalid(path, key, text)


_CLAIMS: Final = Environment({"claims": map_of(STRING, DYN)})
_USER: Final = Environment({"user": USER_INFO})


def _compiled(
    environment: Environment, source: str, path: str, errors: Errors, *, is_bool: bool = False
) -> Program | None:
    """The program. A rule must be known to be a bool: what may be anything (`dyn`) is none."""
    try:
        program = environment.compile(source)
    except CompileError as error:
        errors.invalid(path, source, f"{error.step}: {error}")
        return None
    if is_bool and program.type != BOOL:
        errors.invalid(path, source, "must evaluate to bool")
        return None
    return program


def selects(source: str, claim: str) -> bool:
    """Whether an expression asks for `claims.CLAIM` anywhere."""
    waiting: list[Node] = [parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Select) and node.field == claim and _is_claims(node.operand):
            return True
        waiting.extend(parts(node))
    return False


def _is_claims(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == "claims"
