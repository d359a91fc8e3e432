"""Options of `fairlead up` about who may log in and who decides what they may do: kube-apiserver's flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.golang.numbers import parse_strict_bool
from fairlead.server.auth import token_file
from fairlead.server.auth.authentication import AnonymousAccess, AuthenticationSettings

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
    ctx.meta.setdefault(_STATED, {})[parameter.name] = value


def _option(flag: str, type_: Any, meaning: str, **more: Any) -> Callable[[Command], Command]:
    if type_ == _BOOL:
        more |= {"is_flag": False, "flag_value": "true", "metavar": _BOOL}
    return click.option(
        f"--{flag}", type=str if type_ == _BOOL else type_, help=meaning, expose_value=False, callback=_keep, **more
    )


_OPTIONS: Final = (
    _option("token-auth-file", _FILE, "Bearer tokens and their users: a CSV file of token,name,uid,groups."),
    _option("enable-bootstrap-token-auth", _BOOL, "Let in by Secrets of type bootstrap.kubernetes.io/token."),
    _option("anonymous-auth", _BOOL, "Let in who shows nothing, as system:anonymous. Off by default."),
)


def access_options(command: Command) -> Command:
    """The options above, in this order in the help; `authentication` has what they say."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class _Stated:
    token_auth_file: Path | None = None
    enable_bootstrap_token_auth: bool | None = None
    anonymous_auth: bool | None = None


def _stated() -> _Stated:
    return _Stated(**click.get_current_context().meta.get(_STATED, {}))


def authentication() -> AuthenticationSettings:
    """How clients may log in. OSError or ValueError if a file is not what it should be."""
    stated = _stated()
    return AuthenticationSettings(
        known_tokens=token_file.load(stated.token_auth_file) if stated.token_auth_file else {},
        has_bootstrap_tokens=bool(stated.enable_bootstrap_token_auth),
        anonymous=AnonymousAccess() if stated.anonymous_auth else None,
    )
