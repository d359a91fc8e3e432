"""Programs that give credentials, as kubeconfigs of EKS, GKE and AKS name them, run as client-go runs them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from fairlead.api import builtin
from fairlead.api.errors import Unauthorized
from fairlead.api.users import User
from fairlead.client.credential_plugin import NoCredentials, PluginCredentials, plugin_of
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load
from fairlead.client.kubeconfig_service import KubeconfigService
from fairlead.compose import Settings, cluster
from fairlead.runtime.loops import run
from fairlead.server.auth.certificates import Pki
from fairlead.store.directory import credentials_in

Obj = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"
#: Each time it says another token: `token-1`, `token-2` ...; the rest of the status is its argument.
COUNTING = """
import json, os, pathlib, sys
counter = pathlib.Path(__file__).with_suffix(".count")
count = 1 + int(counter.read_text() if counter.exists() else 0)
counter.write_text(str(count))
pathlib.Path(__file__).with_suffix(".info").write_text(os.environ["KUBERNETES_EXEC_INFO"] + os.environ["LANE"])
status = {"token": f"token-{count}"} | json.loads(sys.argv[1])
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}))
"""


def counting(folder: Path, status: Obj | None = None, **more: Any) -> Obj:
    """The `exec` of a program that counts."""
    program = folder / "plugin.py"
    program.write_text(COUNTING)
    stated: Obj = {"apiVersion": V1, "command": sys.executable, "args": [str(program), json.dumps(status or {})]}
    return stated | {"interactiveMode": "Never", "env": [{"name": "LANE", "value": " of ours"}]} | more


def kubeconfig(folder: Path, server: str, stated: Obj, **more: Any) -> Path:
    path = folder / "config"
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server} | more}],
        "users": [{"name": "u", "user": {"exec": stated}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def tokens_seen(folder: Path, stated: Obj, requests: int, accepted: Callable[[str], bool] = bool) -> list[str]:
    """Which tokens a server sees of so many requests, which it answers if it takes the token."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", "").removeprefix("Bearer "))
        return web.json_response({"metadata": {}, "items": []}, status=200 if accepted(seen[-1]) else 401)

    async def scene() -> None:
        application = web.Application()
        application.router.add_get("/{any:.*}", answer)
        async with (
            TestServer(application) as server,
            HttpApi(load(kubeconfig(folder, str(server.make_url("")), stated))) as api,
        ):
            for _ in range(requests):
                try:
                    await api.list(builtin.PODS)
                except Unauthorized:
                    continue

    asyncio.run(scene())
    return seen


def test_what_a_plugin_gave_is_shown_until_it_expires(tmp_path: Path) -> None:
    assert tokens_seen(tmp_path, counting(tmp_path), 3) == ["token-1"] * 3
    late = {"expirationTimestamp": "2199-01-01T00:00:00Z"}
    assert tokens_seen(tmp_path, counting(tmp_path, late), 2) == ["token-2"] * 2
    past = {"expirationTimestamp": "2020-01-01T00:00:00Z"}  # it is asked once more as the client begins
    assert tokens_seen(tmp_path, counting(tmp_path, past), 2) == ["token-4", "token-5"]


def test_what_the_server_will_not_have_is_asked_for_anew(tmp_path: Path) -> None:
    seen = tokens_seen(tmp_path, counting(tmp_path), 4, lambda token: token != "token-1")
    assert seen == ["token-1", "token-2", "token-2", "token-2"]


def test_a_plugin_is_told_what_it_is_for(tmp_path: Path) -> None:
    told = {"server": "https://c.example", "tls-server-name": "c", "certificate-authority": "ca.pem"}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
    (tmp_path / "ca.pem").write_bytes(b"CA")
    path = kubeconfig(
        tmp_path, stated=counting(tmp_path, provideClusterInfo=True), extensions=[extension, {"name": "other"}], **told
    )
    plugin = load(path).plugin
    assert plugin is not None
    asyncio.run(PluginCredentials(plugin).current())
    info, _, rest = (tmp_path / "plugin.info").read_text().partition(" of ours")
    assert rest == ""
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://c.example",
                "tls-server-name": "c",
                "certificate-authority-data": "Q0E=",
                "config": {"audience": "us"},
            },
        },
    }


def test_a_plugin_beside_the_kubeconfig_is_found_there_and_others_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stated, here = {"apiVersion": V1, "command": "./plugin", "interactiveMode": "Never"}, Path()
    found = load(kubeconfig(here, "https://c.example", stated)).plugin
    assert found is not None and found.command == str(tmp_path / "plugin")
    found = load(kubeconfig(here, "https://c.example", stated | {"command": "aws"})).plugin
    assert found is not None and found.command == "aws"


def test_a_certificate_of_a_plugin_lets_in(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = Settings(port=0, components=frozenset({"api"}), data_dir=tmp_path / "data")
        async with cluster(settings) as running:
            assert running.kubeconfig is not None
            identity = Pki(credentials_in(tmp_path / "data")).authority.identify(User("jane", ("ops",)))
            status = {
                "token": "",
                "clientCertificateData": identity.certificate.decode(),
                "clientKeyData": identity.key.decode(),
            }
            access = load(running.kubeconfig)
            (tmp_path / "ca.pem").write_bytes(access.ca or b"")
            stated = counting(tmp_path, status)
            path = kubeconfig(tmp_path, access.server, stated, **{"certificate-authority": "ca.pem"})
            async with HttpApi(load(path)) as api:
                for _ in range(2):
                    review = await api.create(builtin.SELF_SUBJECT_REVIEWS, {})
                    assert review.obj()["status"]["userInfo"]["username"] == "jane"

    run(scene())


def script(folder: Path, text: str) -> str:
    program = folder / "plugin.sh"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def answer(status: str, version: str = V1) -> str:
    return f"""echo '{{"kind": "ExecCredential", "apiVersion": "{version}"{status}}}'"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 3", "exec: executable {} failed with exit code 3"),
        ("echo secret", "decoding stdout: JSON is malformed"),
        (answer(""), "exec plugin didn't return a status field"),
        (answer(', "status": {}'), "exec plugin didn't return a token or cert/key pair"),
        (answer(', "status": {"clientKeyData": "x"}'), "exec plugin returned only certificate or key, not both"),
        (answer(', "status": {"token": "x", "expirationTimestamp": "soon"}'), 'decoding stdout: parsing time "soon"'),
        (
            answer(', "status": {"token": "x"}', f"{V1}beta1"),
            f"exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1",
        ),
    ],
)
def test_a_plugin_that_gives_nothing_is_told_of_in_the_words_of_client_go(tmp_path: Path, text: str, said: str) -> None:
    program = script(tmp_path, text)
    with pytest.raises(NoCredentials) as refused:
        asyncio.run(PluginCredentials(_plugin(command=program)).current())
    assert str(refused.value).startswith(f"getting credentials: {said.format(program)}")
    assert "secret" not in str(refused.value)


def test_who_lacks_the_program_is_told_where_to_get_it() -> None:
    with pytest.raises(NoCredentials) as refused:
        asyncio.run(PluginCredentials(_plugin(command="nowhere-to-be", installHint="Get it there.")).current())
    lines = str(refused.value).splitlines()
    assert lines[0] == "getting credentials: exec: executable nowhere-to-be not found"
    assert lines[-1] == "Get it there."


def test_a_plugin_that_must_ask_somebody_does_not_without_a_terminal() -> None:
    with pytest.raises(NoCredentials, match="standard input is not a terminal"):
        asyncio.run(PluginCredentials(_plugin(command="true", interactiveMode="Always")).current())


def test_one_who_waits_no_longer_leaves_no_plugin_behind(tmp_path: Path) -> None:
    program, pipe = script(tmp_path, f"echo $$ > {tmp_path}/pipe; exec sleep 1000"), tmp_path / "pipe"
    os.mkfifo(pipe)

    async def scene() -> str:
        asking = asyncio.create_task(PluginCredentials(_plugin(command=program)).current())
        pid = await asyncio.to_thread(pipe.read_text)
        asking.cancel()
        await asyncio.wait([asking])
        return pid.strip()

    assert not Path("/proc", asyncio.run(scene())).exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"command": ""}, "command must be specified for u to use exec authentication plugin"),
        ({"apiVersion": ""}, "apiVersion must be specified for u to use exec authentication plugin"),
        ({"apiVersion": f"{V1}alpha1"}, f'exec plugin: invalid apiVersion "{V1}alpha1"'),
        ({"interactiveMode": ""}, "interactiveMode must be specified for u to use exec authentication plugin"),
        ({"interactiveMode": "Now"}, 'invalid interactiveMode for u: "Now"'),
        ({"env": [{"value": "x"}]}, "env variable name must be specified for u to use exec authentication plugin"),
        ({"args": "x"}, "Expected `array | null`, got `str`"),
    ],
)
def test_what_states_no_plugin_is_refused(changed: Obj, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("|", r"\|")):
        _plugin(**changed)


def test_a_service_that_this_server_asks_takes_no_plugin(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://c.example", counting(tmp_path))
    with pytest.raises(ValueError, match="exec is not supported"):
        KubeconfigService(path)


def _plugin(**changed: Any) -> Any:
    return plugin_of("u", {"command": "x", "apiVersion": V1, "interactiveMode": "Never"} | changed, {})
