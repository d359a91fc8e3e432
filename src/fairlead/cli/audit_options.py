"""Options of `fairlead up` about its audit log: kube-apiserver's flags, with its defaults and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.cli.failures import WrongUsage
from fairlead.server.audit import policy_file
from fairlead.server.audit.auditor import AuditSettings

Command = TypeVar("Command", bound=Callable[..., Any])

_STATED: Final = "fairlead.audit-options"
_FORMATS: Final = ("json",)


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    assert parameter.name is not None
    ctx.meta.setdefault(_STATED, {})[parameter.name] = value


def _option(flag: str, meaning: str, **more: Any) -> Callable[[Command], Command]:
    return click.option(f"--{flag}", help=meaning, expose_value=False, callback=_keep, **more)


def _number(flag: str, default: int, unit: str, meaning: str) -> Callable[[Command], Command]:
    return _option(flag, meaning, type=int, default=default, show_default=True, metavar=unit)


_OPTIONS: Final = (
    _option(
        "audit-policy-file",
        "Which requests the audit log tells of, and how much: a Policy (audit.k8s.io/v1).",
        type=click.Path(path_type=Path),
    ),
    _option("audit-log-path", "The audit log; - is standard output.", metavar="FILE", default=""),
    _option("audit-log-format", "How it is written.", default="json", show_default=True, metavar="json"),
    _number("audit-log-maxsize", 100, "MB", "Begin a new file when it is so large; 0: never."),
    _number("audit-log-maxbackup", 100, "COUNT", "How many old files to keep; 0: all."),
    _number("audit-log-maxage", 366, "DAYS", "How long to keep old files; 0: for ever."),
)


def audit_options(command: Command) -> Command:
    """The options above, in this order in the help; `audit_settings` has what they say."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def audit_settings() -> AuditSettings | None:
    """What the audit log is to be; None if there is to be none. ValueError if the policy is not what it should be."""
    stated = click.get_current_context().meta[_STATED]
    file, path = stated["audit_policy_file"], stated["audit_log_path"]
    if not file and not path:
        return None
    if not (file and path):
        raise WrongUsage("--audit-policy-file says what the audit log tells, --audit-log-path where: give both or none")
    if stated["audit_log_format"] not in _FORMATS:
        text = f'invalid audit log format {stated["audit_log_format"]}, allowed formats are "{",".join(_FORMATS)}"'
        raise WrongUsage(text)
    numbers = [stated[f"audit_log_{name}"] for name in ("maxage", "maxbackup", "maxsize")]
    for name, number in zip(("maxage", "maxbackup", "maxsize"), numbers, strict=True):
        if number < 0:
            raise WrongUsage(f"--audit-log-{name} {number} can't be a negative number")
    return AuditSettings(policy_file.load(file), path, *numbers)
