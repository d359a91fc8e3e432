"""Which credentials are tried for an image: those of its pull secrets whose registry and path are its own.

As the kubelet matches them (pkg/credentialprovider): a host may have `*` within its labels, ports must be equal, a
path is a prefix, the longest names come first, and `index.docker.io` stands for Docker Hub.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from fairlead.agent.images.references import DOCKER_HUB, Reference

_DEFAULT_REGISTRY: Final = "index.docker.io"
_MOST_ENTRIES: Final = 10_000

T = TypeVar("T")


class Credential(msgspec.Struct, frozen=True):
    username: str
    password: str


class _Entry(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""


class _ConfigJson(msgspec.Struct):
    auths: dict[str, _Entry] = {}


class Keyring(msgspec.Struct, frozen=True):
    """Credentials by the place they are for: host, or host and path. The most specific come first."""

    entries: Sequence[tuple[str, Credential]] = ()

    def lookup(self, reference: Reference) -> list[Credential]:
        """Those to try for an image, in order; none: it is asked for anonymously."""
        found = [credential for place, credential in self.entries if _matches(place, reference.name)]
        if not found and reference.domain == DOCKER_HUB:
            found = [credential for place, credential in self.entries if place == _DEFAULT_REGISTRY]
        return list(dict.fromkeys(found))


def keyring(config_jsons: Iterable[bytes] = (), legacy_configs: Iterable[bytes] = ()) -> Keyring:
    """Of the data of secrets: `.dockerconfigjson`, and `.dockercfg`. ValueError for what is no such document."""
    entries: list[tuple[str, Credential]] = []
    for document in config_jsons:
        entries += _entries(_decoded(document, _ConfigJson).auths)
    for document in legacy_configs:
        entries += _entries(_decoded(document, dict[str, _Entry]))
    if len(entries) > _MOST_ENTRIES:
        raise ValueError(f"pull secrets have at most {_MOST_ENTRIES} registries, not {len(entries)}")
    return Keyring(sorted(entries, key=lambda entry: entry[0], reverse=True))


def _decoded(document: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(document, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"a pull secret is no Docker configuration: {error}") from None


def _entries(auths: dict[str, _Entry]) -> Iterable[tuple[str, Credential]]:
    for place, entry in auths.items():
        yield _place(place), _credential(place, entry)


def _place(text: str) -> str:
    """Host and path without a scheme; /v1/ and /v2/ are the registry itself."""
    parts = urlsplit(text if text.startswith(("https://", "http://")) else f"https://{text}")
    path = parts.path[3:] if parts.path.startswith(("/v1/", "/v2/")) else parts.path
    return parts.netloc + ("" if path == "/" else path)


def _credential(place: str, entry: _Entry) -> Credential:
    if not entry.auth:
        return Credential(entry.username, entry.password)
    try:
        username, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = username = password = ""
    if not colon:
        raise ValueError(f"a pull secret's auth of {place} is not the base64 of USER:PASSWORD")
    return Credential(username, password)


def _matches(place: str, name: str) -> bool:
    host, _, path = place.partition("/")
    wanted, _, wanted_path = name.partition("/")
    host, port = _split_port(host)
    wanted, wanted_port = _split_port(wanted)
    labels, wanted_labels = host.split("."), wanted.split(".")
    return (
        port == wanted_port
        and len(labels) == len(wanted_labels)
        and wanted_path.startswith(path)
        and all(fnmatchcase(found, label) for label, found in zip(labels, wanted_labels, strict=True))
    )


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and port.isdigit() else (host, "")
