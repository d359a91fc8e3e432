"""Credentials that a program gives: the `exec` of a kubeconfig, by which one logs in to EKS, GKE, AKS and by OIDC.

The program is told what it is for in `KUBERNETES_EXEC_INFO`, and says an ExecCredential on its standard output. What it
gave is used until it expires, or the server will have it no more.
Source: k8s.io/client-go, plugin/pkg/client/auth/exec and tools/clientcmd/validation.go (1.36).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.api.meta import View
from fairlead.golang import times
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import now, parse_timestamp

_GROUP: Final = "client.authentication.k8s.io"
_BETA: Final = f"{_GROUP}/v1beta1"
_VERSIONS: Final = (f"{_GROUP}/v1", _BETA)
#: The extension of a cluster that is for its plugin.
_EXTENSION: Final = f"{_GROUP}/exec"
_NEVER, _IF_AVAILABLE, _ALWAYS = "Never", "IfAvailable", "Always"
_INFO: Final = "KUBERNETES_EXEC_INFO"
_NOT_INSTALLED: Final = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


class NoCredentials(ConnectionError):
    """The program gave none; nothing was sent to the server."""

    def __init__(self, why: str) -> None:
        super().__init__(f"getting credentials: {why}")


class CredentialPlugin(msgspec.Struct, frozen=True):
    """A program as a kubeconfig names it."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive_mode: str = _IF_AVAILABLE
    #: What it is told of the cluster; None: nothing.
    cluster: Mapping[str, Any] | None = None


class Given(msgspec.Struct, frozen=True):
    """What a plugin gave: a token, a certificate with its key (PEM), or both."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    #: When it is of no more use, in seconds of the wall clock; None: nobody knows.
    expires: float | None = None

    @property
    def has_expired(self) -> bool:
        return self.expires is not None and now() > self.expires


class _Variable(View):
    name: str = ""
    value: str = ""


class _Exec(View):
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _Extension(View):
    name: str = ""
    extension: Any = None


class _Status(View):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Credential(View):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


def plugin_of(user: str, stated: object, cluster: Mapping[str, Any]) -> CredentialPlugin:
    """The plugin that the entry of a user states; ValueError says what is wrong with it."""
    found = msgspec.convert(stated, _Exec)
    if not found.command:
        raise ValueError(f"command must be specified for {user} to use exec authentication plugin")
    if not found.api_version:
        raise ValueError(f"apiVersion must be specified for {user} to use exec authentication plugin")
    if found.api_version not in _VERSIONS:
        raise ValueError(f"exec plugin: invalid apiVersion {go_quote(found.api_version)}")
    if any(not variable.name for variable in found.env or ()):
        raise ValueError(f"env variable name must be specified for {user} to use exec authentication plugin")
    mode = found.interactive_mode or (_IF_AVAILABLE if found.api_version == _BETA else "")
    if not mode:
        raise ValueError(f"interactiveMode must be specified for {user} to use exec authentication plugin")
    if mode not in (_NEVER, _IF_AVAILABLE, _ALWAYS):
        raise ValueError(f"invalid interactiveMode for {user}: {go_quote(mode)}")
    return CredentialPlugin(
        found.command,
        found.api_version,
        tuple(found.args or ()),
        tuple((variable.name, variable.value) for variable in found.env or ()),
        found.install_hint,
        mode,
        _told(cluster) if found.provide_cluster_info else None,
    )


def _told(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a plugin is told of a cluster, which is the entry of a kubeconfig with its files read."""
    keys = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    told = {key: cluster[key] for key in keys if cluster.get(key)}
    for extension in msgspec.convert(cluster.get("extensions") or [], list[_Extension]):
        if extension.name == _EXTENSION:
            told["config"] = extension.extension
    return told


class PluginCredentials:
    """What a plugin gives, which is asked again when that is of no more use."""

    def __init__(self, plugin: CredentialPlugin) -> None:
        self._plugin = plugin
        self._given: Given | None = None
        self._asking = asyncio.Lock()  # it may ask somebody for a password, once

    async def current(self) -> Given:
        """Raises NoCredentials."""
        async with self._asking:
            if self._given is None or self._given.has_expired:
                self._given = await _ask(self._plugin)
            return self._given

    def forget(self, refused: Given) -> None:
        """The server would not have it; somebody may have got another meanwhile."""
        if self._given is refused:
            self._given = None


async def _ask(plugin: CredentialPlugin) -> Given:
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == _ALWAYS and not has_terminal:
        raise NoCredentials("exec plugin cannot support interactive mode: standard input is not a terminal")
    is_interactive = plugin.interactive_mode != _NEVER and has_terminal
    spec: dict[str, Any] = {"interactive": is_interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = msgspec.json.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,  # what it says to people is on the other
            env={**os.environ, **dict(plugin.env), _INFO: info},
        )
    except FileNotFoundError:
        hint = f"\n\n{plugin.install_hint}" if plugin.install_hint else ""
        raise NoCredentials(f"exec: executable {plugin.command} not found{_NOT_INSTALLED}{hint}") from None
    except OSError as error:
        raise NoCredentials(f"exec: {plugin.command}: {error.strerror}") from None
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if code := process.returncode:
        raise NoCredentials(f"exec: executable {plugin.command} failed with exit code {code}")
    return _read(plugin, said)


def _read(plugin: CredentialPlugin, said: bytes) -> Given:
    try:
        found = msgspec.json.decode(said, type=_Credential)
        expires = found.status.expiration_timestamp if found.status else None
        expires_at = parse_timestamp(expires) if expires and times.seconds(expires) else None
    except ValueError as error:  # what it said may be a secret
        raise NoCredentials(f"decoding stdout: {error}") from None
    if found.api_version != plugin.api_version:
        versions = f"{plugin.api_version}, plugin returned version {found.api_version}"
        raise NoCredentials(f"exec plugin is configured to use API version {versions}")
    if (status := found.status) is None:
        raise NoCredentials("exec plugin didn't return a status field")
    certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
    if not (status.token or certificate or key):
        raise NoCredentials("exec plugin didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise NoCredentials("exec plugin returned only certificate or key, not both")
    return Given(status.token, certificate, key, expires_at)
