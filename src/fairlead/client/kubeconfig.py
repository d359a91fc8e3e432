"""How a client finds a server and proves who it is: kubeconfigs, and what every pod is given."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import yaml
from msgspec.structs import replace

from fairlead.client.credential_plugin import CredentialPlugin, plugin_of
from fairlead.golang import base64
from fairlead.golang import yaml as goyaml

#: Where a pod finds its service account.
POD_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_NAMESPACE: Final = "default"
#: What a header's name may have beside letters and digits; all else of a key is written as in a URL.
_OF_HEADERS: Final = "!#$&'*+-.^_`|~"
#: What of an entry is a file, by its path from the folder of the kubeconfig.
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class Access(msgspec.Struct, frozen=True):
    """One context of a kubeconfig, resolved. Certificates and keys are PEM."""

    server: str
    ca: bytes | None = None
    token: str = ""
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    namespace: str = _DEFAULT_NAMESPACE
    insecure: bool = False
    #: Where the token is kept up to date: that of a pod is a new one every hour.
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    #: What gives a token or certificate in place of these.
    plugin: CredentialPlugin | None = None
    #: Headers that say as whom to act.
    impersonation: tuple[tuple[str, str], ...] = ()
    #: For whom the server's certificate must be, if not for its host.
    server_name: str = ""
    #: By which proxy it is reached; "": as the environment says.
    proxy: str = ""


def render(
    access: Access, existing: Mapping[str, Any] | None = None, name: str = "fairlead", user_name: str = ""
) -> str:
    """A kubeconfig whose current context is this access; the other entries of an existing one stay.

    The user is named like the context unless it has a name of its own.
    """
    user_name = user_name or name
    cluster: dict[str, Any] = {"server": access.server} | _encoded("certificate-authority", access.ca)
    user = _encoded("client-certificate", access.client_certificate) | _encoded("client-key", access.client_key)
    if access.token:
        user["token"] = access.token
    context = {"cluster": name, "user": user_name}
    if access.namespace != _DEFAULT_NAMESPACE:
        context["namespace"] = access.namespace
    config = {"apiVersion": "v1", "kind": "Config", **(existing or {})}
    _put(config, "clusters", name, "cluster", cluster)
    _put(config, "users", user_name, "user", user)
    _put(config, "contexts", name, "context", context, keeps_more=True)
    config["current-context"] = name
    return dump(config)


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    """The same without the context of that name, and the cluster and user that `render` put beside it."""
    rest = dict(config)
    for section in ("clusters", "users", "contexts"):
        rest[section] = [entry for entry in rest.get(section) or () if _name(entry) != name]
    if rest.get("current-context") == name:
        rest["current-context"] = ""
    return rest


def dump(config: Mapping[str, Any]) -> str:
    """A kubeconfig as it is written."""
    return yaml.safe_dump(dict(config), sort_keys=False)


def read(path: Path) -> dict[str, Any]:
    """What a kubeconfig says; ValueError if the file is none."""
    try:
        config, _ = goyaml.parse(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if config is None:
        return {}
    if not isinstance(config, dict) or config.get("kind", "Config") != "Config":
        raise ValueError(f"{path} is not a kubeconfig")
    return config


def _put(
    config: dict[str, Any], section: str, name: str, key: str, value: dict[str, Any], *, keeps_more: bool = False
) -> None:
    """Set the entry of that name; with `keeps_more`, what else was said in it (a namespace) stays."""
    entries = config[section] = list(config.get(section) or ())
    for entry in entries:
        if _name(entry) == name:
            entry[key] = {**(entry.get(key) or {}), **value} if keeps_more else value
            return
    entries.append({"name": name, key: value})


def load(path: Path, context: str = "") -> Access:
    """The current (or named) context of a kubeconfig; ValueError says what is wrong with it."""
    return _access(_beside(read(path), path.absolute().parent), context)


def load_merged(paths: Sequence[Path], context: str = "") -> Access:
    """The same of several, as KUBECONFIG names them: of entries with one name the first counts, and those files that
    are not there have none. OSError if none of them is."""
    there = [path for path in paths if path.exists()]
    return _access(_merged(_beside(read(path), path.absolute().parent) for path in there or paths[:1]), context)


def _merged(configs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for config in configs:
        merged["current-context"] = merged.get("current-context") or config.get("current-context")
        for section in ("clusters", "users", "contexts"):  # of which `_named` finds the first
            merged[section] = [*merged.get(section, ()), *(config.get(section) or ())]
    return merged


def _beside(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same with the files that it names by where they are."""
    located = dict(config)
    for section, key in (("clusters", "cluster"), ("users", "user")):
        entries = config.get(section)
        if isinstance(entries, list):
            located[section] = [_located(entry, key, folder) for entry in entries]
    return located


def _located(entry: Any, key: str, folder: Path) -> Any:
    if not isinstance(entry, dict) or not isinstance(stated := entry.get(key), dict):
        return entry
    found = stated | {name: str(folder / str(stated[name])) for name in _FILES if stated.get(name)}
    plugin = stated.get("exec")
    if isinstance(plugin, dict) and os.sep in (command := str(plugin.get("command") or "")):  # others are in PATH
        found["exec"] = plugin | {"command": str(folder / command)}
    return entry | {key: found}


def _access(config: dict[str, Any], context: str) -> Access:
    wanted = context or config.get("current-context") or ""
    chosen = _named(config, "contexts", wanted).get("context") or {}
    cluster = _named(config, "clusters", chosen.get("cluster", "")).get("cluster") or {}
    name = chosen.get("user", "")
    user = _named(config, "users", name).get("user") or {}
    ca = _pem(cluster, "certificate-authority")
    plugin = user.get("exec")
    return replace(
        _user(user),
        server=str(cluster.get("server") or ""),
        ca=ca,
        namespace=chosen.get("namespace", _DEFAULT_NAMESPACE),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        plugin=plugin_of(name, plugin, cluster | _encoded("certificate-authority", ca)) if plugin else None,
        server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
    )


def users(config: Mapping[str, Any], path: Path) -> dict[str, Access]:
    """What each user of a kubeconfig shows, whatever the server; ValueError or OSError where that cannot be read."""
    found: dict[str, Access] = {}
    for entry in _beside(dict(config), path.absolute().parent).get("users") or ():
        name = _name(entry)
        if not isinstance(name, str) or not isinstance(user := entry.get("user") or {}, dict):
            raise ValueError(f"{path}: a user without a name, or which is none")
        found[name] = _user(user)
    return found


def _user(user: dict[str, Any]) -> Access:
    token, token_file = user.get("token", ""), None
    if not token and user.get("tokenFile"):
        token_file = Path(user["tokenFile"])
        token = read_token(token_file)
    return Access(
        server="",
        token=token,
        client_certificate=_pem(user, "client-certificate"),
        client_key=_pem(user, "client-key"),
        token_file=token_file,
        username=user.get("username", ""),
        password=user.get("password", ""),
        impersonation=tuple(_impersonation(user)),
    )


def _impersonation(user: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if name := user.get("as"):
        yield "Impersonate-User", name
    if uid := user.get("as-uid"):
        yield "Impersonate-Uid", uid
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", group
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_OF_HEADERS)}", value


def in_cluster(environment: Mapping[str, str], account: Path = POD_ACCOUNT) -> Access:
    """The API server of the pod that this process runs in; ValueError outside of pods, OSError for a pod without a
    service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ValueError("this is no pod of a cluster")
    token_file = account / "token"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca=(account / "ca.crt").read_bytes(),
        token=read_token(token_file),
        namespace=(account / "namespace").read_text().strip(),
        token_file=token_file,
    )


def read_token(file: Path) -> str:
    """The bearer token in a file."""
    return file.read_text().strip()


async def authorization(access: Access) -> dict[str, str]:
    """The header that goes along, if there is one. OSError: the file of its token cannot be read."""
    token = access.token
    if access.token_file is not None:
        token = await asyncio.to_thread(read_token, access.token_file)
    return authorization_header(token, access)


def authorization_header(token: str, access: Access) -> dict[str, str]:
    """The same with a token that has been read; without one a name and password are shown, if there are any."""
    if token:
        return {"Authorization": f"Bearer {token}"}
    if access.username:
        word = base64.encode(f"{access.username}:{access.password}".encode())
        return {"Authorization": f"Basic {word}"}
    return {}


def _named(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or ():
        if isinstance(entry, dict) and _name(entry) == name:
            return entry
    raise ValueError(f"the kubeconfig has no entry {name!r} under {section!r}")


def _name(entry: object) -> object:
    return entry.get("name") if isinstance(entry, dict) else None


def _encoded(key: str, pem: bytes | None) -> dict[str, Any]:
    """A certificate or key as an entry holds it inline."""
    return {f"{key}-data": base64.encode(pem)} if pem else {}


def _pem(entry: dict[str, Any], key: str) -> bytes | None:
    if inline := entry.get(f"{key}-data"):
        try:
            return base64.decode(base64.canonical(str(inline)))
        except ValueError as error:
            raise ValueError(f"the {key}-data of the kubeconfig: {error}") from None
    if file := entry.get(key):
        return Path(file).read_bytes()
    return None
