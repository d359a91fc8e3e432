"""How this server shows webhooks who it is, as `kubeConfigFile` of a WebhookAdmissionConfiguration says."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.client.webhook_credentials import WebhookCredentials
from fairlead.server.admission.configuration import AdmissionConfiguration
from tests.server.test_admission_configuration import HEAD, nested, read
from tests.server.webhook_world import Webhooks, World, allowed, within


def kubeconfig(folder: Path, users: dict[str, Obj], **more: Any) -> Path:
    file = folder / "webhooks.kubeconfig"
    entries = [{"name": name, "user": user} for name, user in users.items()]
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": entries, **more}))
    return file


def configured(folder: Path, file: Path, plugin: str = "ValidatingAdmissionWebhook") -> AdmissionConfiguration:
    text = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n"
    return read(folder, HEAD + nested(plugin, f"{text}kubeConfigFile: {file}"))


def test_the_nearest_name_of_a_user_counts(tmp_path: Path) -> None:
    names = ("a.example.com", "b.example.com:8443", "*.example.com", "*.org:444", "*")
    found = WebhookCredentials(kubeconfig(tmp_path, {name: {"token": name} for name in names}))

    def user(host: str, port: int = 443) -> str:
        credential = found.find(host, port)
        return credential.name if credential is not None else ""

    assert user("a.example.com") == "a.example.com"
    assert user("a.example.com", 8443) == "*"  # a name without a port is for 443 alone
    assert user("b.example.com", 8443) == "b.example.com:8443"
    assert user("x.y.example.com") == "*.example.com"
    assert (user("x.org", 444), user("x.org")) == ("*.org:444", "*")


def test_without_a_name_the_user_of_the_current_context_counts(tmp_path: Path) -> None:
    contexts = [{"name": "c", "context": {"user": "me"}}]
    users: dict[str, Obj] = {"me": {"token": "t"}}
    chosen = WebhookCredentials(kubeconfig(tmp_path, users, contexts=contexts, **{"current-context": "c"}))
    credential = chosen.find("anywhere", 443)
    assert credential is not None
    assert credential.name == "me"
    assert WebhookCredentials(kubeconfig(tmp_path, users, contexts=contexts)).find("anywhere", 443) is None


def test_a_webhook_sees_token_password_and_certificate(tmp_path: Path) -> None:
    token_file = tmp_path / "token"

    def configure(webhooks: Webhooks) -> AdmissionConfiguration:
        identity = webhooks.authority.identify(User("kube-apiserver"))
        shown = {
            "client-certificate-data": b64encode(identity.certificate).decode(),
            "client-key-data": b64encode(identity.key).decode(),
        }
        token_file.write_text("first")
        users: dict[str, Obj] = {f"127.0.0.1:{webhooks.port}": {"tokenFile": "token", **shown}}
        return configured(tmp_path, kubeconfig(tmp_path, users))

    async def steps(world: World) -> None:
        await world.validating(allowed)
        await world.create("a")
        token_file.write_text("second")
        await world.create("b")
        requests, peers = world.webhooks.requests, world.webhooks.peers
        assert [each.headers["Authorization"] for each in requests] == ["Bearer first", "Bearer second"]
        assert [peer["subject"][-1] for peer in peers] == [(("commonName", "kube-apiserver"),)] * 2
        await world.mutating(allowed)  # which has no configuration
        await world.create("c")
        mutating = next(each for each in requests[2:] if "Authorization" not in each.headers)
        assert world.webhooks.peers[requests.index(mutating)] is None

    within(steps, configure=configure)


def test_a_password_goes_along_and_a_token_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    async def password(world: World) -> None:
        await world.validating(allowed)
        await world.create("a")
        basic = b64encode(b"me:secret").decode()
        assert world.webhooks.requests[-1].headers["Authorization"] == f"Basic {basic}"

    users: dict[str, Obj] = {"*": {"username": "me", "password": "secret"}}
    within(password, configure=lambda _: configured(tmp_path, kubeconfig(tmp_path, users)))

    async def gone(world: World) -> None:
        (tmp_path / "token").unlink()
        await world.validating(allowed)
        refused = await world.refusal(world.create("a"))
        assert "could not get REST client: " in refused.message

    (tmp_path / "token").write_text("t")
    by_file: dict[str, Obj] = {"*": {"tokenFile": "token"}}
    within(gone, configure=lambda _: configured(tmp_path, kubeconfig(tmp_path, by_file)))


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"*": {"exec": {"command": "x"}}}, r"the user '\*' has exec, which is not supported"),
        ({"*": "x"}, "a user without a name, or which is none"),
        ({"*": {"client-certificate-data": "eA==", "client-key-data": "eA=="}}, "cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, users: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        configured(tmp_path, kubeconfig(tmp_path, users))


def test_the_file_is_named_by_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='kubeConfigFile: Invalid value: "some/file": must be an absolute file path'):
        configured(tmp_path, Path("some/file"), "MutatingAdmissionWebhook")
