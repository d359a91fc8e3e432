"""From the claims of a token to its user, by claims and expressions; says why there is none in upstream's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.api.users import CREDENTIAL_ID, User
from fairlead.cel.environment import Program
from fairlead.cel.errors import CelError
from fairlead.cel.scope import Meter
from fairlead.server.account_tokens import InvalidToken
from fairlead.server.auth.oidc.configuration import JwtIssuer, Rule

#: What all expressions about one token may cost together.
_BUDGET: Final = 100_000
_NO_TEXTS: Final = "expression must return a string or a list of strings"

Claims = Mapping[str, Any]


def read(payload: bytes) -> Claims:
    """The claims, numbers as Go's JSON has them without a type; InvalidToken."""
    try:
        claims = json.loads(payload, parse_int=float, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidToken(f"oidc: parse claims: {error}") from None
    if not isinstance(claims, dict):
        raise InvalidToken(
            "oidc: parse claims: json: cannot unmarshal into Go value of type map[string]json.RawMessage"
        )
    return claims


def _no_constant(text: str) -> Any:
    raise ValueError(f"invalid character {text!r} looking for beginning of value")


def user_of(issuer: JwtIssuer, claims: Claims) -> User:
    """Whose claims these are; raises InvalidToken."""
    meter = Meter(_BUDGET)
    name = _username(issuer, claims, meter)
    groups = _groups(issuer, claims, meter)
    uid = _uid(issuer, claims, meter)
    user = User(name, tuple(groups), uid, tuple(sorted(_extra(issuer, claims, meter))))
    for rule in issuer.configuration.claim_validation_rules:
        if rule.claim:
            _require(rule.claim, rule.required_value, claims)
    _check(issuer.claim_rules, {"claims": claims}, meter, "claim validation expression")
    if issuer.user_rules:
        extra = {key: list(values) for key, values in user.extra}
        shown = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
        _check(issuer.user_rules, {"user": shown}, meter, "user info validation rule")
    return user


def _username(issuer: JwtIssuer, claims: Claims, meter: Meter) -> str:
    if issuer.username is not None:
        told = "oidc: error evaluating username claim expression"
        name = _evaluated(issuer.username, claims, meter, told)
        if type(name) is not str:
            raise InvalidToken(f"{told}: username claim expression must return a string")
        if not name:
            raise InvalidToken("oidc: empty username via CEL expression is not allowed")
        return name
    mapping = issuer.configuration.claim_mappings.username
    name = _text(claims, mapping.claim, f'oidc: parse username claims "{mapping.claim}"')
    if mapping.claim == "email" and "email_verified" in claims:
        verified = claims["email_verified"]
        if type(verified) is not bool:
            told = f"json: cannot unmarshal {_go_kind(verified)} into Go value of type bool"
            raise InvalidToken(f"oidc: parse 'email_verified' claim: {told}")
        if not verified:
            raise InvalidToken("oidc: email not verified")
    return (mapping.prefix or "") + name


def _groups(issuer: JwtIssuer, claims: Claims, meter: Meter) -> Sequence[str]:
    mapping = issuer.configuration.claim_mappings.groups
    if issuer.groups is not None:
        told = "oidc: error evaluating group claim expression"
        return _texts(_evaluated(issuer.groups, claims, meter, told), told)
    found = claims.get(mapping.claim) if mapping.claim else None
    if found is None:
        return ()
    groups = [found] if type(found) is str else found
    if not isinstance(groups, list) or not all(type(group) is str for group in groups):
        told = f"json: cannot unmarshal {_go_kind(found)} into Go value of type string"
        raise InvalidToken(f'oidc: parse groups claim "{mapping.claim}": {told}')
    return [(mapping.prefix or "") + group for group in groups]


def _uid(issuer: JwtIssuer, claims: Claims, meter: Meter) -> str:
    mapping = issuer.configuration.claim_mappings.uid
    if mapping.claim:
        return _text(claims, mapping.claim, f'oidc: parse uid claim "{mapping.claim}"')
    if issuer.uid is None:
        return ""
    told = "oidc: error evaluating uid claim expression"
    uid = _evaluated(issuer.uid, claims, meter, told)
    if type(uid) is not str:
        raise InvalidToken(f"{told}: uid claim expression must return a string")
    return uid


def _extra(issuer: JwtIssuer, claims: Claims, meter: Meter) -> Iterable[tuple[str, tuple[str, ...]]]:
    told = "oidc: error evaluating extra claim expression"
    if isinstance(token_id := claims.get("jti"), str) and token_id:
        yield CREDENTIAL_ID, (f"JTI={token_id}",)
    for key, program in issuer.extra:
        values = _texts(_evaluated(program, claims, meter, told), f"{told}: {program.source}")
        if values:
            yield key, tuple(values)


def _require(claim: str, wanted: str, claims: Claims) -> None:
    if claim not in claims:
        raise InvalidToken(f"oidc: required claim {claim} not present in ID token")
    value = _text(claims, claim, f"oidc: parse claim {claim}")
    if value != wanted:
        told = f"oidc: required claim {claim} value does not match. Got = {value}, want = {wanted}"
        raise InvalidToken(told)


def _check(rules: Iterable[Rule], variables: Mapping[str, Any], meter: Meter, what: str) -> None:
    told = f"oidc: error evaluating {what}"
    for rule in rules:
        if _value(rule.program, variables, meter, told) is not True:
            raise InvalidToken(f"{told}: {rule.failure}")


def _evaluated(program: Program, claims: Claims, meter: Meter, told: str) -> Any:
    return _value(program, {"claims": claims}, meter, told)


def _value(program: Program, variables: Mapping[str, Any], meter: Meter, told: str) -> Any:
    try:
        return program.metered(variables, meter)
    except CelError as error:
        raise InvalidToken(f"{told}: expression '{program.source}' resulted in error: {error}") from None


def _texts(value: Any, told: str) -> list[str]:
    """The texts that an expression gives; empty ones count as none."""
    if value is None:
        return []
    texts = [value] if type(value) is str else value
    if not isinstance(texts, list) or not all(type(text) is str for text in texts):
        raise InvalidToken(f"{told}: {_NO_TEXTS}")
    return [text for text in texts if text]


def _text(claims: Claims, claim: str, told: str) -> str:
    if claims.get(claim) is None:
        raise InvalidToken(f"{told}: claim not present")
    value = claims[claim]
    if type(value) is not str:
        raise InvalidToken(f"{told}: json: cannot unmarshal {_go_kind(value)} into Go value of type string")
    return value


def _go_kind(value: Any) -> str:
    return {bool: "bool", float: "number", str: "string", list: "array", dict: "object"}.get(type(value), "null")
