"""Names of images: what `nginx` means in full, as containerd and Docker read it (distribution/reference).

A tag beside a digest says nothing and is dropped, as in containerd.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead.agent.images.errors import InvalidReference
from fairlead.golang.quoting import go_quote

DOCKER_HUB: Final = "docker.io"
_MOST: Final = 1024  # characters that are looked at
_MOST_NAME: Final = 255

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128}")
_ID: Final = re.compile(r"[a-f0-9]{64}")


class Reference(msgspec.Struct, frozen=True):
    """The name of an image in full: with a registry, and with either a tag or a digest."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Without tag and digest."""
        return f"{self.domain}/{self.path}"

    @property
    def object(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def parse(text: str) -> Reference:
    """The reference that a name means. Raises InvalidReference."""
    if len(text) > _MOST:
        raise InvalidReference(f"the name of an image has at most {_MOST} characters, not {len(text)}")
    if _ID.fullmatch(text):
        why = f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        raise _invalid(text, why)
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _invalid(text)
    domain, rest = _split(rest)
    path, colon, tag = rest.partition(":")
    if path.lower() != path:
        raise _invalid(text, f"invalid reference format: repository name ({path}) must be lowercase")
    if (colon and not _TAG.fullmatch(tag)) or not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path):
        raise _invalid(text)
    if len(path) > _MOST_NAME:
        raise _invalid(text, f"repository name must not be more than {_MOST_NAME} characters")
    return Reference(domain, path, digest=digest) if digest else Reference(domain, path, tag or "latest")


def is_digest(text: str) -> bool:
    """Whether it is a digest that is understood here."""
    return _DIGEST.fullmatch(text) is not None


def image_id(text: str) -> str | None:
    """The id that a text is, with or without `sha256:`; None if it is none."""
    bare = text.removeprefix("sha256:")
    return f"sha256:{bare}" if _ID.fullmatch(bare) else None


def _split(text: str) -> tuple[str, str]:
    """The registry and what follows: what has no dot, port or capital is a user of Docker Hub, not a host."""
    first, slash, rest = text.partition("/")
    is_host = slash and (first == "localhost" or "." in first or ":" in first or first.lower() != first)
    domain, remote = (first, rest) if is_host else (DOCKER_HUB, text)
    if domain == f"index.{DOCKER_HUB}":
        domain = DOCKER_HUB
    if domain == DOCKER_HUB and "/" not in remote:
        remote = f"library/{remote}"
    return domain, remote


def _invalid(text: str, why: str = "invalid reference format") -> InvalidReference:
    return InvalidReference(f"couldn't parse image name {go_quote(text)}: {why}")
