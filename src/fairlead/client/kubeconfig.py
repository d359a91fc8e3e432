"""How a client finds a server and proves who it is: kubeconfigs, and what every pod is given."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace

from fairlead.golang import yaml as goyaml

#: Where a pod finds its service account.
POD_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_NAMESPACE: Final = "default"


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
    config = read(path)
    wanted = context or config.get("current-context") or ""
    chosen = _named(config, "contexts", wanted).get("context") or {}
    cluster = _named(config, "clusters", chosen.get("cluster", "")).get("cluster") or {}
    user = _named(config, "users", chosen.get("user", "")).get("user") or {}
    return replace(
        _user(user, path),
        server=cluster.get("server", ""),
        ca=_pem(cluster, "certificate-authority", path),
        namespace=chosen.get("namespace", _DEFAULT_NAMESPACE),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def users(config: Mapping[str, Any], path: Path) -> dict[str, Access]:
    """What each user of a kubeconfig shows, whatever the server; ValueError or OSError where that cannot be read."""
    found: dict[str, Access] = {}
    for entry in config.get("users") or ():
        name = _name(entry)
        if not isinstance(name, str) or not isinstance(user := entry.get("user") or {}, dict):
            raise ValueError(f"{path}: a user without a name, or which is none")
        found[name] = _user(user, path)
    return found


def _user(user: dict[str, Any], path: Path) -> Access:
    token, token_file = user.get("token", ""), None
    if not token and user.get("tokenFile"):
        token_file = path.parent / user["tokenFile"]
        token = read_token(token_file)
    return Access(
        server="",
        token=token,
        client_certificate=_pem(user, "client-certificate", path),
        client_key=_pem(user, "client-key", path),
        token_file=token_file,
    )


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


def _named(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or ():
        if isinstance(entry, dict) and _name(entry) == name:
            return entry
    raise ValueError(f"the kubeconfig has no entry {name!r} under {section!r}")


def _name(entry: object) -> object:
    return entry.get("name") if isinstance(entry, dict) else None


def _encoded(key: str, pem: bytes | None) -> dict[str, Any]:
    """A certificate or key as an entry holds it inline."""
    return {f"{key}-data": base64.b64encode(pem).decode()} if pem else {}


def _pem(entry: dict[str, Any], key: str, path: Path) -> bytes | None:
    if inline := entry.get(f"{key}-data"):
        return base64.b64decode(inline)
    if file := entry.get(key):
        found: bytes = (path.parent / file).read_bytes()
        return found
    return None
