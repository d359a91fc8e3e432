"""`fairlead up` takes kube-apiserver's flags about its audit log, and refuses them in its words (issue 16)."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead.cli.audit_options import audit_options, audit_settings
from fairlead.cli.failures import parsing
from fairlead.client.kubeconfig import Access, render
from fairlead.server.audit.auditor import AuditSettings
from fairlead.server.audit.truncation import Truncation
from fairlead.server.audit.webhook import AuditWebhookSettings

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


def stated(*arguments: str) -> AuditSettings | None:
    found = []

    @click.command()
    @audit_options
    def command() -> None:
        found.append(audit_settings())

    command.main(arguments, standalone_mode=False)
    return found[0]


def refusal(*arguments: str) -> str:
    @click.command()
    @audit_options
    def command() -> None:
        with parsing():
            audit_settings()

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    return result.output


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return f"--audit-policy-file={path}"


def test_without_flags_there_is_no_audit_log() -> None:
    assert stated() is None


def test_the_defaults_are_those_of_kube_apiserver(policy: str) -> None:
    settings = stated(policy, "--audit-log-path=audit.log")
    assert settings is not None
    assert (settings.path, settings.max_age_days, settings.max_backups, settings.max_megabytes) == (
        "audit.log",
        366,
        100,
        100,
    )
    numbers = ("--audit-log-maxage=1", "--audit-log-maxbackup=2", "--audit-log-maxsize=3")
    settings = stated(policy, "--audit-log-path=-", *numbers)
    assert settings is not None
    assert (settings.max_age_days, settings.max_backups, settings.max_megabytes) == (1, 2, 3)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--audit-log-format=xml", 'invalid audit log format xml, allowed formats are "json"'),
        ("--audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
        ("--audit-log-maxbackup=-1", "--audit-log-maxbackup -1 can't be a negative number"),
        ("--audit-log-maxsize=-1", "--audit-log-maxsize -1 can't be a negative number"),
    ],
)
def test_what_cannot_be_is_refused(policy: str, argument: str, text: str) -> None:
    assert text in refusal(policy, "--audit-log-path=a", argument)


def test_what_is_told_may_be_truncated(policy: str, webhook: str) -> None:
    settings = stated(policy, webhook, "--audit-log-path=a")
    assert settings is not None and settings.webhook is not None
    assert (settings.truncation, settings.webhook.truncation) == (None, None)
    of_log = ("--audit-log-truncate-enabled", "--audit-log-truncate-max-event-size=10")
    of_webhook = ("--audit-webhook-truncate-enabled=true", "--audit-webhook-truncate-max-batch-size=200000")
    settings = stated(policy, webhook, "--audit-log-path=a", *of_log, *of_webhook)
    assert settings is not None and settings.webhook is not None
    assert settings.truncation == Truncation(most_of_batch=10 << 20, most_of_event=10)
    assert settings.webhook.truncation == Truncation(most_of_batch=200_000, most_of_event=100 << 10)


@pytest.mark.parametrize("receiver", ["log", "webhook"])
def test_truncation_that_cannot_be_is_refused(policy: str, webhook: str, receiver: str) -> None:
    sizes = [f"--audit-{receiver}-truncate-max-{what}-size={size}" for what, size in (("event", 6), ("batch", 5))]
    told = " ".join(refusal(policy, webhook, "--audit-log-path=a", *sizes).split())
    assert f"audit truncate {receiver} max batch size 5, must be greater than max event size (6)" in told
    told = " ".join(refusal(policy, webhook, "--audit-log-path=a", sizes[0][:-1] + "0").split())
    assert f"audit truncate {receiver} max event size 0, must be a positive number" in told


@pytest.fixture
def webhook(tmp_path: Path) -> str:
    path = tmp_path / "webhook.kubeconfig"
    path.write_text(render(Access("https://localhost:1/audit", b"")))
    return f"--audit-webhook-config-file={path}"


def test_a_service_may_be_told_instead_of_a_file(policy: str, webhook: str, tmp_path: Path) -> None:
    settings = stated(policy, webhook)
    assert settings is not None and settings.path == ""
    assert settings.webhook == AuditWebhookSettings(tmp_path / "webhook.kubeconfig")
    batches = [
        f"--audit-webhook-batch-{each}"
        for each in ("buffer-size=1", "max-size=2", "max-wait=3s", "throttle-qps=0.5", "throttle-burst=4")
    ]
    settings = stated(policy, webhook, *batches, "--audit-webhook-initial-backoff=1m")
    assert settings is not None and settings.webhook is not None
    found = settings.webhook
    assert (found.most_waiting, found.most_at_once, found.most_wait_seconds) == (1, 2, 3.0)
    assert (found.throttle, found.initial_backoff_seconds) == ((0.5, 4), 60.0)
    settings = stated(policy, webhook, "--audit-webhook-batch-throttle-enable=false", "--audit-webhook-mode=blocking")
    assert settings is not None and settings.webhook is not None
    assert (settings.webhook.throttle, settings.webhook.mode) == (None, "blocking")


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--audit-webhook-mode=x", 'invalid audit webhook mode x, allowed modes are "batch,blocking,blocking-strict"'),
        ("--audit-webhook-version=v2", "invalid group version, allowed versions are"),
        ("--audit-webhook-batch-buffer-size=0", "invalid audit batch webhook buffer size 0, must be a positive number"),
        ("--audit-webhook-batch-max-size=-1", "invalid audit batch webhook max batch size -1, must be a positive"),
        ("--audit-webhook-batch-throttle-qps=0", "invalid audit batch webhook throttle QPS 0, must be a positive"),
        ("--audit-webhook-batch-throttle-burst=0", "invalid audit batch webhook throttle burst 0, must be a positive"),
        ("--audit-webhook-initial-backoff=soon", "'soon' is not a duration"),
    ],
)
def test_what_cannot_be_of_a_service_is_refused(policy: str, webhook: str, argument: str, text: str) -> None:
    assert text in " ".join(refusal(policy, webhook, argument).split())


def test_a_kubeconfig_that_names_no_service_is_refused(policy: str, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("apiVersion: v1\nkind: Config\n")
    assert f"Error: {file}: the kubeconfig has no entry" in refusal(policy, f"--audit-webhook-config-file={file}")


def test_a_policy_and_a_place_go_together(policy: str) -> None:
    assert "give both or none" in refusal(policy)
    assert "give both or none" in refusal("--audit-log-path=a")


def test_a_policy_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("kind: Policy\n")
    told = " ".join(refusal(f"--audit-policy-file={file}", "--audit-log-path=a").split())
    assert "loading audit policy file: failed decoding: Object 'apiVersion' is missing" in told
