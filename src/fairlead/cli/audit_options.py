"""Options of `fairlead up` about its audit: kube-apiserver's flags, with its defaults and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.cli.access_options import check_service
from fairlead.cli.failures import WrongUsage
from fairlead.golang.durations import non_negative_seconds
from fairlead.server.audit import policy_file
from fairlead.server.audit.auditor import AuditSettings
from fairlead.server.audit.truncation import Truncation
from fairlead.server.audit.webhook import AuditWebhookSettings, Mode

Command = TypeVar("Command", bound=Callable[..., Any])

_STATED: Final = "fairlead.audit-options"
_FORMATS: Final = ("json",)
_VERSION: Final = "audit.k8s.io/v1"


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    assert parameter.name is not None
    ctx.meta.setdefault(_STATED, {})[parameter.name] = value


def _option(flag: str, meaning: str, **more: Any) -> Callable[[Command], Command]:
    return click.option(f"--{flag}", help=meaning, expose_value=False, callback=_keep, **more)


def _number(flag: str, default: int, unit: str, meaning: str) -> Callable[[Command], Command]:
    return _option(flag, meaning, type=int, default=default, show_default=True, metavar=unit)


def _switch(flag: str, meaning: str, *, default: bool) -> Callable[[Command], Command]:
    return _option(
        flag,
        meaning,
        type=bool,
        default=default,
        show_default=True,
        metavar="BOOL",
        is_flag=False,
        flag_value=True,
    )


def _truncation_of(receiver: str) -> tuple[Callable[[Command], Command], ...]:
    default = Truncation()
    return (
        _switch(
            f"audit-{receiver}-truncate-enabled",
            "Whether events that are too large lose their objects, and are lost if they are still too large.",
            default=False,
        ),
        _number(
            f"audit-{receiver}-truncate-max-batch-size",
            default.most_of_batch,
            "BYTES",
            "How large events may be together that are sent at once.",
        ),
        _number(
            f"audit-{receiver}-truncate-max-event-size", default.most_of_event, "BYTES", "How large an event may be."
        ),
    )


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
    *_truncation_of("log"),
    _option(
        "audit-webhook-config-file",
        "A kubeconfig of a service that is sent the audit events.",
        type=click.Path(path_type=Path),
    ),
    _option(
        "audit-webhook-mode",
        "Whether requests wait until it has them: batch, blocking, or blocking-strict, which fails those of which it "
        "cannot be told.",
        default=Mode.BATCH,
        show_default=True,
        metavar="MODE",
    ),
    _option(
        "audit-webhook-version", "In which form it is told.", default=_VERSION, show_default=True, metavar="VERSION"
    ),
    _option(
        "audit-webhook-initial-backoff",
        "How long to wait before a call is tried again.",
        default="10s",
        show_default=True,
        metavar="DURATION",
    ),
    _number("audit-webhook-batch-buffer-size", 10_000, "COUNT", "How many events may wait."),
    _number("audit-webhook-batch-max-size", 400, "COUNT", "How many events are sent at once."),
    _option(
        "audit-webhook-batch-max-wait",
        "How long to wait for so many.",
        default="30s",
        show_default=True,
        metavar="DURATION",
    ),
    _switch("audit-webhook-batch-throttle-enable", "Whether there may only be so many batches a second.", default=True),
    _option(
        "audit-webhook-batch-throttle-qps",
        "How many batches a second, on average.",
        type=float,
        default=10.0,
        show_default=True,
        metavar="NUMBER",
    ),
    _number("audit-webhook-batch-throttle-burst", 15, "COUNT", "How many batches at once, if there were none before."),
    *_truncation_of("webhook"),
)


def audit_options(command: Command) -> Command:
    """The options above, in this order in the help; `audit_settings` has what they say."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def audit_settings() -> AuditSettings | None:
    """What the audit is to be; None if there is to be none. ValueError if the policy is not what it should be."""
    stated = click.get_current_context().meta[_STATED]
    file, path, webhook = stated["audit_policy_file"], stated["audit_log_path"], stated["audit_webhook_config_file"]
    if not (file or path or webhook):
        return None
    if not (file and (path or webhook)):
        raise WrongUsage(
            "--audit-policy-file says what is told of requests, --audit-log-path or --audit-webhook-config-file whom: "
            "give both or none"
        )
    if stated["audit_log_format"] not in _FORMATS:
        text = f'invalid audit log format {stated["audit_log_format"]}, allowed formats are "{",".join(_FORMATS)}"'
        raise WrongUsage(text)
    numbers = [stated[f"audit_log_{name}"] for name in ("maxage", "maxbackup", "maxsize")]
    for name, number in zip(("maxage", "maxbackup", "maxsize"), numbers, strict=True):
        if number < 0:
            raise WrongUsage(f"--audit-log-{name} {number} can't be a negative number")
    max_age, max_backups, max_megabytes = numbers
    service = _webhook(webhook, stated) if webhook else None
    truncation = _truncation("log", stated) if path else None
    return AuditSettings(policy_file.load(file), path, max_age, max_backups, max_megabytes, service, truncation)


def _webhook(file: Path, stated: Mapping[str, Any]) -> AuditWebhookSettings:
    """Which service is told, and how. The sizes and rates count in mode batch alone, and are checked there alone."""
    mode = stated["audit_webhook_mode"]
    if mode not in tuple(Mode):
        raise WrongUsage(f'invalid audit webhook mode {mode}, allowed modes are "{",".join(Mode)}"')
    if stated["audit_webhook_version"] != _VERSION:
        raise WrongUsage(f'invalid group version, allowed versions are ["{_VERSION}"]')
    backoff = non_negative_seconds(stated["audit_webhook_initial_backoff"])
    wait = non_negative_seconds(stated["audit_webhook_batch_max_wait"])
    buffer_size, max_size, is_throttled, rate, burst = (
        stated[f"audit_webhook_batch_{name}"]
        for name in ("buffer_size", "max_size", "throttle_enable", "throttle_qps", "throttle_burst")
    )
    if mode == Mode.BATCH:
        throttling = (("throttle QPS", rate), ("throttle burst", burst)) if is_throttled else ()
        for name, number in (("buffer size", buffer_size), ("max batch size", max_size), *throttling):
            if number <= 0:
                raise WrongUsage(f"invalid audit batch webhook {name} {number:g}, must be a positive number")
    check_service(file)
    throttle = (rate, burst) if is_throttled else None
    truncation = _truncation("webhook", stated)
    return AuditWebhookSettings(file, Mode(mode), backoff, buffer_size, max_size, wait, throttle, truncation)


def _truncation(receiver: str, stated: Mapping[str, Any]) -> Truncation | None:
    """How large what a receiver is told may be, which is checked even if it is not to be so."""
    is_enabled, batch, event = (
        stated[f"audit_{receiver}_truncate_{name}"] for name in ("enabled", "max_batch_size", "max_event_size")
    )
    if event <= 0:
        raise WrongUsage(f"invalid audit truncate {receiver} max event size {event}, must be a positive number")
    if batch < event:
        text = f"max batch size {batch}, must be greater than max event size ({event})"
        raise WrongUsage(f"invalid audit truncate {receiver} {text}")
    return Truncation(batch, event) if is_enabled else None
