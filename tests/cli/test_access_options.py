"""`fairlead up` takes kube-apiserver's flags about who may log in, and refuses them in its words (issue 16)."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead.cli.access_options import access_options, authentication, authorization
from fairlead.cli.failures import parsing
from fairlead.client.kubeconfig import Access, render
from fairlead.runtime.authority import Authority
from fairlead.server.auth.abac import Policy
from fairlead.server.auth.authentication import AuthenticationSettings, TokenWebhookSettings
from fairlead.server.auth.authorization import NODE_AND_RBAC, AuthorizationSettings

FILE = """
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: https://issuer, audiences: [a]}
  claimMappings: {username: {claim: sub, prefix: ""}}
"""
ANONYMOUS = "anonymous: {enabled: true, conditions: [{path: /livez}]}\n"
OIDC = ("--oidc-issuer-url=https://issuer", "--oidc-client-id=me")


def stated(*arguments: str) -> AuthenticationSettings:
    return both(*arguments)[0]


def both(*arguments: str) -> tuple[AuthenticationSettings, AuthorizationSettings]:
    found = []

    @click.command()
    @access_options
    def command() -> None:
        with parsing():
            found.append((authentication(), authorization()))

    command.main(arguments, standalone_mode=False)
    return found[0]


def refusal(*arguments: str) -> str:
    @click.command()
    @access_options
    def command() -> None:
        with parsing():
            authentication()
            authorization()

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    return result.output


def write(folder: Path, text: str) -> str:
    path = folder / "authentication.yaml"
    path.write_text(text)
    return f"--authentication-config={path}"


def test_nothing_is_on_by_default() -> None:
    assert stated() == AuthenticationSettings()
    assert stated("--anonymous-auth=false", "--enable-bootstrap-token-auth=0") == AuthenticationSettings()


def test_flags_without_a_value_are_true() -> None:
    found = stated("--anonymous-auth", "--enable-bootstrap-token-auth")
    assert found.anonymous is not None
    assert found.anonymous.paths == frozenset()
    assert found.has_bootstrap_tokens


def test_who_shows_nothing_is_not_allowed_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert stated("--anonymous-auth", "--authorization-mode=RBAC,AlwaysAllow").anonymous is None
    assert "--anonymous-auth is not allowed with the authorization mode AlwaysAllow" in capsys.readouterr().err
    assert stated("--authorization-mode=AlwaysAllow").anonymous is None
    assert not capsys.readouterr().err


def test_a_file_says_who_comes_in(tmp_path: Path) -> None:
    found = stated(write(tmp_path, FILE + ANONYMOUS))
    assert [issuer.configuration.issuer.url for issuer in found.issuers] == ["https://issuer"]
    assert found.anonymous is not None
    assert found.anonymous.paths == {"/livez"}
    assert stated(write(tmp_path, FILE), "--anonymous-auth").anonymous is not None


def test_flags_say_what_a_file_would() -> None:
    (issuer,) = stated(*OIDC, "--oidc-groups-claim=g", "--oidc-required-claim=a=b=c").issuers
    said = issuer.configuration
    assert (said.claim_mappings.username.claim, said.claim_mappings.username.prefix) == ("sub", "https://issuer#")
    assert (said.claim_mappings.groups.claim, said.claim_mappings.groups.prefix) == ("g", "")
    assert [(rule.claim, rule.required_value) for rule in said.claim_validation_rules] == [("a", "b=c")]
    assert stated(*OIDC).algorithms == ("RS256",)
    for arguments in (["--oidc-username-prefix=-"], ["--oidc-username-claim=email"]):
        assert stated(*OIDC, *arguments).issuers[0].configuration.claim_mappings.username.prefix == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (OIDC[:1], "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"),
        (("--oidc-groups-claim=g",), "oidc-issuer-url and oidc-client-id must be specified together"),
        ((*OIDC, "--oidc-signing-algs=HS256"), 'oidc: unsupported signing alg: "HS256"'),
        ((*OIDC, "--oidc-required-claim=a"), "malformed pair, expect string=string, got a"),
        (("--oidc-issuer-url=http://x", "--oidc-client-id=me"), "URL scheme must be https"),
        (("--authorization-mode=RBAC,Magic",), 'authorization-mode "Magic" is not a valid mode'),
        (("--authorization-mode=RBAC,RBAC",), 'authorization-mode ["RBAC" "RBAC"] has mode specified more than once'),
        (("--authorization-mode=",), "at least one authorization-mode must be passed"),
        (("--authorization-mode=Webhook",), "authorization-mode Webhook's authorization config file not passed"),
        (("--authorization-mode=ABAC",), "authorization-mode ABAC's authorization policy file not passed"),
        ((f"--authorization-policy-file={__file__}",), "cannot specify --authorization-policy-file without mode ABAC"),
        (("--anonymous-auth=maybe",), 'strconv.ParseBool: parsing "maybe": invalid syntax'),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], why: str) -> None:
    assert why in refusal(*arguments)


def test_policies_by_attributes_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "policies.jsonl"
    line = '{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "jane"}}'
    file.write_text(f"# who may\n\n{line}\n")
    flags = ("--authorization-mode=Node,ABAC", f"--authorization-policy-file={file}")
    _, settings = both(*flags)
    assert [each.type for each in settings.authorizers] == ["Node", "ABAC"]
    assert settings.policies == (Policy(user="jane"),)
    file.write_text(f'{line}\n{{"kind": "Policy", "apiVersion": "v1"}}\n')
    told = " ".join(refusal(*flags).split())
    assert f"{file}, line 2: " in told and 'no kind "Policy" is registered for version "v1"' in told
    config = tmp_path / "authorization.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
    config.write_text(f"{head}- {{type: ABAC, name: abac}}\n")
    assert "authorization policy file not passed" in refusal(f"--authorization-config={config}")
    file.write_text(line)
    _, settings = both(f"--authorization-config={config}", flags[1])
    assert settings.policies == (Policy(user="jane"),)


def test_a_file_and_flags_must_not_say_the_same(tmp_path: Path) -> None:
    file = write(tmp_path, FILE + ANONYMOUS)
    assert "authentication-config file and oidc-* flags are mutually exclusive" in refusal(file, OIDC[0])
    assert "--anonymous-auth flag cannot be set when anonymous field is configured" in refusal(file, "--anonymous-auth")
    assert "authentication.yaml: jwt[0].issuer.url: Invalid value" in refusal(
        write(tmp_path, FILE.replace("https", "http"))
    )


def service(folder: Path, server: str = "https://localhost:1/review") -> str:
    path = folder / "webhook.kubeconfig"
    path.write_text(render(Access(server)))
    return str(path)


def test_webhooks_have_a_kubeconfig_each(tmp_path: Path) -> None:
    file = service(tmp_path)
    flags = [f"--authentication-token-webhook-config-file={file}", "--authentication-token-webhook-cache-ttl=1m30s"]
    assert stated(*flags).webhook == TokenWebhookSettings(Path(file), "v1beta1", 90.0)
    flags = [f"--authorization-webhook-config-file={file}", "--authorization-webhook-version=v1"]
    found = both(*flags, "--authorization-mode=Webhook,RBAC", "--authorization-webhook-cache-unauthorized-ttl=0s")[1]
    assert [authorizer.type for authorizer in found.authorizers] == ["Webhook", "RBAC"]
    webhook = found.authorizers[0].webhook
    assert webhook is not None
    assert (webhook.version, webhook.authorized_seconds, webhook.unauthorized_seconds) == ("v1", 300.0, 0.0)
    assert "--authorization-webhook-config-file without mode Webhook" in refusal(*flags)
    assert "has no server" in refusal(
        *flags, "--authorization-mode=Webhook", flags[0].replace(file, service(tmp_path, ""))
    )


def test_a_file_says_who_decides(tmp_path: Path) -> None:
    assert both()[1] is NODE_AND_RBAC
    path = tmp_path / "authorization.yaml"
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
        "authorizers: [{type: RBAC, name: rbac}, {type: AlwaysAllow, name: all}]\n"
    )
    found = both(f"--authorization-config={path}")[1]
    assert [authorizer.type for authorizer in found.authorizers] == ["RBAC", "AlwaysAllow"]
    told = refusal(f"--authorization-config={path}", "--authorization-mode=RBAC")
    assert "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-*" in told


# -- a front proxy


def test_a_front_proxy_is_told_by_flags(tmp_path: Path) -> None:
    ca = tmp_path / "proxies.crt"
    ca.write_bytes(Authority.make("proxies").certificate_pem)
    file = f"--requestheader-client-ca-file={ca}"
    found = stated(
        file, "--requestheader-username-headers=X-Remote-User, X-User", "--requestheader-allowed-names=a,b"
    ).front_proxy
    assert found is not None
    assert (found.username_headers, found.allowed_names) == (("X-Remote-User", "X-User"), ("a", "b"))
    assert (found.group_headers, found.extra_prefixes) == ((), ())
    assert stated().front_proxy is None


def test_half_a_front_proxy_is_refused(tmp_path: Path) -> None:
    ca = tmp_path / "proxies.crt"
    ca.write_text("no certificate")
    file, users = f"--requestheader-client-ca-file={ca}", "--requestheader-username-headers=X-Remote-User"
    for arguments in ((file,), (users,), ("--requestheader-group-headers=X",)):
        assert "belong together" in refusal(*arguments)
    assert f"{ca}: " in refusal(file, users)
    assert 'empty value in "requestheader-group-headers"' in refusal(file, users, "--requestheader-group-headers=X, ")
