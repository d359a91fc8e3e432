"""URLs as Go's net/url reads them, and its words for those that it refuses.

Python's `urlsplit` takes nearly every text for a URL; what Go refuses, kube-apiserver refuses.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

import msgspec

from fairlead.golang.quoting import go_quote

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}")
_PORT: Final = re.compile("(:[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
#: What a host cannot have: of ASCII, as it stands or escaped.
_HOST_FAULT: Final = re.compile(
    r"""%(?!25|[89A-Fa-f][0-9A-Fa-f]).{0,2}|[^A-Za-z0-9!$&'()*+,;=:\[\]<>"._~%\x80-\U0010ffff-]"""
)
_ZONE: Final = "%25"


class MalformedUrl(ValueError):
    """The text is no URL; `str()` of it is Go's message."""


class Url(msgspec.Struct, frozen=True):
    """The parts of a URL that anybody asks for."""

    scheme: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""


def parse(text: str, *, is_request: bool = False) -> Url:
    """`url.Parse`, or `url.ParseRequestURI`, which takes neither a relative path nor a fragment."""
    whole, _, fragment = (text, "", "") if is_request else text.partition("#")
    told = whole
    try:
        url = _parsed(whole, is_request=is_request)
        told = text
        _check_escapes(fragment)
    except MalformedUrl as error:
        raise MalformedUrl(f"parse {go_quote(told)}: {error}") from None
    return msgspec.structs.replace(url, fragment=fragment)


def _parsed(text: str, *, is_request: bool) -> Url:
    if _CONTROL.search(text):
        raise MalformedUrl("net/url: invalid control character in URL")
    if not text and is_request:
        raise MalformedUrl("empty url")
    if text.startswith(":"):
        raise MalformedUrl("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest, _, query = text[found.end() if found else 0 :].partition("?")
    if not rest.startswith("/") and text != "*":
        if scheme:
            return Url(scheme=scheme, query=query)
        if is_request:
            raise MalformedUrl("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise MalformedUrl("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    _check_escapes(rest)
    return Url(scheme=scheme, user=user, host=host, path=rest, query=query)


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    """Who, and where."""
    user, at, host = text.rpartition("@")
    _check_host(scheme, host)
    if at and not _USER.fullmatch(user):
        raise MalformedUrl("net/url: invalid userinfo")
    _check_escapes(user)
    return user if at else None, host


def _check_host(scheme: str, host: str) -> None:
    if "[" in host:
        _check_literal(host)
        return
    place = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if place >= 0:
        _check_port(host[place:])
    _check_host_text(host)


def _check_literal(host: str) -> None:
    """An IPv6 address in brackets, with a zone perhaps."""
    if not host.startswith("[") or "[" in host[1:]:
        raise MalformedUrl("invalid IP-literal")
    name, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise MalformedUrl("missing ']' in host")
    _check_port(port)
    address, _, zone = name.partition(_ZONE)
    _check_host_text(address)
    try:
        found = ipaddress.ip_address(f"{address}%{zone}" if zone else address)
    except ValueError:
        raise MalformedUrl(f"invalid host: ParseAddr({go_quote(name)}): unable to parse IP") from None
    if found.version == 4:
        raise MalformedUrl("invalid IP-literal")


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise MalformedUrl(f"invalid port {go_quote(port)} after host")


def _check_host_text(text: str) -> None:
    """Only what is not ASCII may be escaped, and a percent sign."""
    if found := _HOST_FAULT.search(text):
        quoted = go_quote(found[0])
        is_escape = found[0].startswith("%")
        raise MalformedUrl(f"invalid URL escape {quoted}" if is_escape else f"invalid character {quoted} in host name")


def _check_escapes(text: str) -> None:
    if found := _BAD_ESCAPE.search(text):
        raise MalformedUrl(f"invalid URL escape {go_quote(found[0])}")
