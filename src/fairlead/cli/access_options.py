"""Options of `fairlead up` about who may log in and who decides what they may do: kube-apiserver's flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec
from msgspec.structs import replace

from fairlead.api.fields import Errors
from fairlead.cli.failures import WrongUsage
from fairlead.cli.options import names_in
from fairlead.client.reviews import ReviewService
from fairlead.golang.durations import non_negative_seconds
from fairlead.golang.numbers import parse_strict_bool
from fairlead.golang.quoting import go_quote
from fairlead.server.account_tokens import ISSUER
from fairlead.server.auth import abac, token_file
from fairlead.server.auth.authentication import (
    AnonymousAccess,
    AuthenticationFile,
    AuthenticationSettings,
    TokenWebhookSettings,
    read_configuration,
)
from fairlead.server.auth.authorization import NO_POLICIES, NODE_AND_RBAC, AuthorizationFile, AuthorizationSettings
from fairlead.server.auth.authorization_configuration import (
    ABAC,
    ALWAYS_ALLOW,
    MODES,
    VERSIONS,
    WEBHOOK,
    AuthorizerConfiguration,
    Webhook,
    parsed,
)
from fairlead.server.auth.front_proxy import FrontProxySettings
from fairlead.server.auth.oidc import configuration as oidc
from fairlead.server.auth.oidc.keys import ALGORITHMS

Command = TypeVar("Command", bound=Callable[..., Any])

_STATED: Final = "fairlead.access-options"
_VERSION: Final = click.Choice(VERSIONS)
#: A duration of Go.
_TIME: Final = "DURATION"
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
    elif type_ == _TIME:
        type_, more = str, more | {"metavar": _TIME}
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
    _option("authentication-token-webhook-config-file", _FILE, "A kubeconfig: who is asked whose a token is."),
    _option("authentication-token-webhook-version", _VERSION, "Of TokenReviews.  [default: v1beta1]"),
    _option("authentication-token-webhook-cache-ttl", _TIME, "How long answers count.  [default: 2m]"),
    _option("requestheader-client-ca-file", _FILE, "Who signs for proxies that may say in whose name they ask."),
    _option("requestheader-allowed-names", str, "Which of them.  [default: all]", metavar="A,B"),
    _option("requestheader-username-headers", str, "In which headers. X-Remote-User is common.", metavar="A,B"),
    _option("requestheader-uid-headers", str, "The uid. X-Remote-Uid is common.", metavar="A,B"),
    _option("requestheader-group-headers", str, "The groups. X-Remote-Group is common.", metavar="A,B"),
    _option("requestheader-extra-headers-prefix", str, "More. X-Remote-Extra- is common.", metavar="A,B"),
    _option("authorization-mode", str, "Who decides, in order.  [default: Node,RBAC]", metavar="A,B"),
    _option("authorization-policy-file", _FILE, "Policies of the mode ABAC, one a line (docs/access.md)."),
    _option("authorization-config", _FILE, "The same as an AuthorizationConfiguration (docs/access.md)."),
    _option("authorization-webhook-config-file", _FILE, "A kubeconfig: who is asked in the mode Webhook."),
    _option("authorization-webhook-version", _VERSION, "Of SubjectAccessReviews.  [default: v1beta1]"),
    _option("authorization-webhook-cache-authorized-ttl", _TIME, "How long a yes counts.  [default: 5m]"),
    _option("authorization-webhook-cache-unauthorized-ttl", _TIME, "How long another answer counts.  [default: 30s]"),
)


def access_options(command: Command) -> Command:
    """The options above, in this order in the help; `authentication` has what they say."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class _Stated(msgspec.Struct, frozen=True):
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
    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_version: str = "v1beta1"
    authentication_token_webhook_cache_ttl: str = "2m"
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: str = ""
    requestheader_username_headers: str = ""
    requestheader_uid_headers: str = ""
    requestheader_group_headers: str = ""
    requestheader_extra_headers_prefix: str = ""
    authorization_mode: str | None = None
    authorization_policy_file: Path | None = None
    authorization_config: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_version: str = "v1beta1"
    authorization_webhook_cache_authorized_ttl: str = "5m"
    authorization_webhook_cache_unauthorized_ttl: str = "30s"

    @property
    def has_oidc_flags(self) -> bool:
        return self._says("oidc_")

    @property
    def has_front_proxy_flags(self) -> bool:
        return self._says("requestheader_")

    @property
    def modes(self) -> tuple[str, ...]:
        """Of authorization, in order."""
        return ("Node", "RBAC") if self.authorization_mode is None else names_in(self.authorization_mode)

    @property
    def has_authorization_flags(self) -> bool:
        return self._says("authorization_mode") or self._says("authorization_webhook_")

    def _says(self, prefix: str) -> bool:
        """Whether something was said by an option whose name begins so."""
        names = (name for name in self.__struct_fields__ if name.startswith(prefix))
        return any(getattr(self, name) != getattr(_UNSAID, name) for name in names)


_UNSAID: Final = _Stated()


def _stated() -> _Stated:
    return _Stated(**click.get_current_context().meta.get(_STATED, {}))


def authentication() -> AuthenticationSettings:
    """How clients may log in. OSError or ValueError if a file is not what it should be."""
    stated = _stated()
    settings = AuthenticationSettings(
        webhook=_token_webhook(stated),
        known_tokens=token_file.load(stated.token_auth_file) if stated.token_auth_file else {},
        has_bootstrap_tokens=bool(stated.enable_bootstrap_token_auth),
        anonymous=AnonymousAccess() if _lets_anonymous_in(stated) else None,
        front_proxy=_front_proxy(stated) if stated.has_front_proxy_flags else None,
    )
    if stated.authentication_config is not None:
        if stated.has_oidc_flags:
            raise WrongUsage("authentication-config file and oidc-* flags are mutually exclusive")
        return _with_file(settings, stated.authentication_config, stated.anonymous_auth)
    if stated.has_oidc_flags:
        return _with_flags(settings, stated)
    return settings


def _lets_anonymous_in(stated: _Stated) -> bool:
    if stated.anonymous_auth and ALWAYS_ALLOW in stated.modes:
        # who shows nothing would be allowed everything
        click.echo(
            "warning: --anonymous-auth is not allowed with the authorization mode AlwaysAllow, and is off", err=True
        )
        return False
    return bool(stated.anonymous_auth)


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


def _token_webhook(stated: _Stated) -> TokenWebhookSettings | None:
    file = stated.authentication_token_webhook_config_file
    if file is None:
        return None
    check_service(file)
    seconds = non_negative_seconds(stated.authentication_token_webhook_cache_ttl)
    return TokenWebhookSettings(file, stated.authentication_token_webhook_version, seconds)


def _front_proxy(stated: _Stated) -> FrontProxySettings:
    file = stated.requestheader_client_ca_file
    if file is None or not stated.requestheader_username_headers:
        raise WrongUsage("--requestheader-client-ca-file and --requestheader-username-headers belong together")
    settings = FrontProxySettings(
        file.read_bytes(),
        _headers("username-headers", stated.requestheader_username_headers),
        _headers("uid-headers", stated.requestheader_uid_headers),
        _headers("group-headers", stated.requestheader_group_headers),
        _headers("extra-headers-prefix", stated.requestheader_extra_headers_prefix),
        tuple(names_in(stated.requestheader_allowed_names)),
    )
    try:
        settings.issuers  # noqa: B018  (whether it can be read)
    except ValueError as error:
        raise WrongUsage(f"{file}: {error}") from None
    return settings


def _headers(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    if not all(names):
        raise WrongUsage(f'empty value in "requestheader-{flag}"')
    return names


def check_service(file: Path) -> None:
    """Refuses a kubeconfig that names no service, before anything starts."""
    try:
        ReviewService(file)
    except ValueError as error:
        raise WrongUsage(f"{file}: {str(error).removeprefix(f'{file}: ')}") from None


def authorization() -> AuthorizationSettings:
    """Who decides what clients may do. OSError or ValueError if a file is not what it should be."""
    stated = _stated()
    if (path := stated.authorization_config) is not None:
        if stated.has_authorization_flags:
            text = "can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"
            raise WrongUsage(f"--authorization-config {text}")
        data = path.read_bytes()
        try:
            authorizers = parsed(data)
        except ValueError as error:
            raise WrongUsage(f"{path}: {error}") from None
        for authorizer in authorizers:
            if authorizer.webhook is not None:
                check_service(authorizer.webhook.kubeconfig)
        if stated.authorization_policy_file is None and any(each.type == ABAC for each in authorizers):
            raise WrongUsage(NO_POLICIES)
        return AuthorizationSettings(authorizers, AuthorizationFile(path, data), _policies(stated))
    if not stated.has_authorization_flags and stated.authorization_policy_file is None:
        return NODE_AND_RBAC
    modes = stated.modes
    _check_modes(modes, stated.authorization_policy_file, stated.authorization_webhook_config_file)
    webhook = _access_webhook(stated)
    authorizers = tuple(AuthorizerConfiguration(mode, webhook if mode == WEBHOOK else None) for mode in modes)
    return AuthorizationSettings(authorizers, policies=_policies(stated))


def _check_modes(modes: Sequence[str], policy_file: Path | None, webhook_file: Path | None) -> None:
    if not modes:
        raise WrongUsage("at least one authorization-mode must be passed")
    for mode in modes:
        if mode not in MODES:
            raise WrongUsage(f"authorization-mode {go_quote(mode)} is not a valid mode")
    if ABAC in modes and policy_file is None:
        raise WrongUsage(NO_POLICIES)
    if ABAC not in modes and policy_file is not None:
        raise WrongUsage("cannot specify --authorization-policy-file without mode ABAC")
    if WEBHOOK in modes and webhook_file is None:
        raise WrongUsage("authorization-mode Webhook's authorization config file not passed")
    if WEBHOOK not in modes and webhook_file is not None:
        raise WrongUsage("cannot specify --authorization-webhook-config-file without mode Webhook")
    if len(set(modes)) < len(modes):
        listed = " ".join(map(go_quote, modes))
        raise WrongUsage(f"authorization-mode [{listed}] has mode specified more than once")


def _policies(stated: _Stated) -> tuple[abac.Policy, ...] | None:
    file = stated.authorization_policy_file
    return None if file is None else abac.load(file)


def _access_webhook(stated: _Stated) -> Webhook | None:
    file = stated.authorization_webhook_config_file
    if file is None:
        return None
    check_service(file)
    return Webhook(
        file,
        stated.authorization_webhook_version,
        authorized_seconds=non_negative_seconds(stated.authorization_webhook_cache_authorized_ttl),
        unauthorized_seconds=non_negative_seconds(stated.authorization_webhook_cache_unauthorized_ttl),
    )
