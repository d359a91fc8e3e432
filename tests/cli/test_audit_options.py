"""`fairlead up` takes kube-apiserver's flags about its audit log, and refuses them in its words (issue 16)."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead.cli.audit_options import audit_options, audit_settings
from fairlead.cli.failures import parsing
from fairlead.server.audit.auditor import AuditSettings

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


def test_a_policy_and_a_place_go_together(policy: str) -> None:
    assert "give both or none" in refusal(policy)
    assert "give both or none" in refusal("--audit-log-path=a")


def test_a_policy_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("kind: Policy\n")
    told = " ".join(refusal(f"--audit-policy-file={file}", "--audit-log-path=a").split())
    assert "loading audit policy file: failed decoding: Object 'apiVersion' is missing" in told
