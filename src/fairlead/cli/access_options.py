"""Options of `fairlead up` about who may log in and who decides what they may do: kube-apiserver's flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.api.fields import Errors
from fairlead.cli.failures import WrongUsage
from fairlead.cli.options import names_in
from fairlead.golang.numbers import parse_strict_bool
from fairlead.golang.quoting import go_quote
from fairlead.server.account_tokens import ISSUER
from fairlead.server.auth import token_file
from fairlead.server.auth.authentication import (
    AnonymousAccess,
    AuthenticationFile,
    AuthenticationSettings,
    read_configuration,
)
from fairlead.server.auth.oidc import configuration as oidc
from fairlead.server.auth.oidc.keys import ALGORITHMS

Command = TypeVar("Command", bound=Callable[..., Any])

_STATED: Final = "fairlead.access-options"
#: `--flag`, `--flag=true` or `--flag=false`.
_BOOL: Final = "[=BOOL]"
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    assert parameter.name is not None
    if isinstance(value, str) and parameter.metavar == _BOOL:
        try:
            value = parse_strict_bool(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    if value is not None:
        ctx.meta.setdefault(_STATED, {})[parameter.name] = value


def _option(flag: str, type_: Any, meaning: str, **more: Any) -> Callable[[Command], Command]:
    if type_ == _BOOL:
        type_, more = str, more | {"is_flag": False, "flag_value": "true", "metavar": _BOOL}
    return click.option(f"--{flag}", type=type_, help=meaning, expose_value=False, callback=_keep, **more)


_OPTIONS: Final = (
    _option("token-auth-file", _FILE, "Bearer tokens and their users: a CSV file of token,name,uid,groups."),
    _option("enable-bootstrap-token-auth", _BOOL, "Let in by Secrets of type bootstrap.kubernetes.io/token."),
    _option("anonymous-auth", _BOOL, "Let in who shows nothing, as system:anonymous. Off by default."),
    _option("authentication-config", _FILE, "An AuthenticationConfiguration: issuers of tokens, anonymous requests."),
    _option("oidc-issuer-url", str, "An OpenID issuer whose tokens let in, without such a file.", metavar="URL"),
    _option("oidc-client-id", str, "For whom its tokens must be.", metavar="NAME"),
    _option("oidc-ca-file", _FILE, "Who vouches for its certificate.  [default: the system's authorities]"),
    _option("oidc-username-claim", str, "The claim that names the user.  [default: sub]", metavar="CLAIM"),
    _option("oidc-username-prefix", str, "Before it; - is nothing.  [default: URL#, but for email]", metavar="TEXT"),
    _option("oidc-groups-claim", str, "The claim that names the groups.", metavar="CLAIM"),
    _option("oidc-groups-prefix", str, "Before each of them.", metavar="TEXT"),
    _option("oidc-signing-algs", str, "How its tokens may be signed.  [default: RS256]", metavar="A,B"),
    _option(
        "oidc-required-claim", str, "A claim that tokens must have. May be repeated.", metavar="K=V", multiple=True
    ),
)


def access_options(command: Command) -> Command:
    """The options above, in this order in the help; `authentication` has what they say."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class _Stated:
    """What was said; None: nothing."""

    token_auth_file: Path | None = None
    enable_bootstrap_token_auth: bool | None = None
    anonymous_auth: bool | None = None
    authentication_config: Path | None = None
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_signing_algs: str = "RS256"
    oidc_required_claim: tuple[str, ...] = ()

    @property
    def has_oidc_flags(self) -> bool:
        return any(getattr(self, name) != getattr(_UNSAID, name) for name in self.__slots__ if name.startswith("oidc_"))


_UNSAID: Final = _Stated()


def authentication() -> AuthenticationSettings:
    """How clients may log in. OSError or ValueError if a file is not what it should be."""
    stated = _Stated(**click.get_current_context().meta.get(_STATED, {}))
    settings = AuthenticationSettings(
        known_tokens=token_file.load(stated.token_auth_file) if stated.token_auth_file else {},
        has_bootstrap_tokens=bool(stated.enable_bootstrap_token_auth),
        anonymous=AnonymousAccess() if stated.anonymous_auth else None,
    )
    if stated.authentication_config is not None:
        if stated.has_oidc_flags:
            raise WrongUsage("authentication-config file and oidc-* flags are mutually exclusive")
        return _with_file(settings, stated.authentication_config, stated.anonymous_auth)
    if stated.has_oidc_flags:
        return _with_flags(settings, stated)
    return settings


def _with_file(settings: AuthenticationSettings, path: Path, anonymous_auth: bool | None) -> AuthenticationSettings:
    data = path.read_bytes()
    try:
        found = read_configuration(data)
    except ValueError as error:
        raise WrongUsage(f"{path}: {error}") from None
    if found.allows_anonymous is not None:
        if anonymous_auth is not None:
            raise WrongUsage(
                "--anonymous-auth flag cannot be set when anonymous field is configured in authentication "
                "configuration file"
            )
        anonymous = AnonymousAccess(found.anonymous_paths) if found.allows_anonymous else None
        settings = replace(settings, anonymous=anonymous)
    return replace(settings, issuers=found.issuers, file=AuthenticationFile(path, data))


def _with_flags(settings: AuthenticationSettings, stated: _Stated) -> AuthenticationSettings:
    """The flags say what an AuthenticationConfiguration with one issuer would."""
    if not (stated.oidc_issuer_url and stated.oidc_client_id):
        raise WrongUsage("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
    algorithms = names_in(stated.oidc_signing_algs)
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise WrongUsage(f"oidc: unsupported signing alg: {go_quote(algorithm)}")
    prefix = stated.oidc_username_prefix
    if not prefix and stated.oidc_username_claim != "email":
        prefix = f"{stated.oidc_issuer_url}#"
    groups = oidc.Mapping(claim=stated.oidc_groups_claim, prefix=stated.oidc_groups_prefix)
    configuration = oidc.JwtConfiguration(
        issuer=oidc.Issuer(
            url=stated.oidc_issuer_url,
            audiences=(stated.oidc_client_id,),
            certificate_authority=stated.oidc_ca_file.read_text() if stated.oidc_ca_file else "",
        ),
        claim_mappings=oidc.ClaimMappings(
            username=oidc.Mapping(claim=stated.oidc_username_claim, prefix="" if prefix == "-" else prefix),
            groups=groups if stated.oidc_groups_claim else oidc.Mapping(),
        ),
        claim_validation_rules=tuple(map(_required_claim, stated.oidc_required_claim)),
    )
    errors = Errors()
    issuers = oidc.compile_issuers([configuration], {ISSUER}, errors)
    oidc.refuse(errors)
    return replace(settings, issuers=issuers, algorithms=algorithms)


def _required_claim(text: str) -> oidc.ClaimRule:
    claim, equals, value = text.partition("=")
    if not equals:
        raise WrongUsage(f"--oidc-required-claim: malformed pair, expect string=string, got {text}")
    return oidc.ClaimRule(claim=claim, required_value=value)
