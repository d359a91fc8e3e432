"""URLs as Go reads them."""

from __future__ import annotations

import pytest

from fairlead.golang.urls import MalformedUrl, Url, parse


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", Url()),
        ("*", Url(path="*")),
        ("HTTPS://h:8443/a?b#c", Url(scheme="https", host="h:8443", path="/a", query="b", fragment="c")),
        ("https://u:p@[::1]:80", Url(scheme="https", user="u:p", host="[::1]:80")),
        ("https://[fe80::1%25eth0]/", Url(scheme="https", host="[fe80::1%25eth0]", path="/")),
        ("//h:1/x", Url(host="h:1", path="/x")),
        ("postgres://a:1,b:2/db", Url(scheme="postgres", host="a:1,b:2", path="/db")),
        ("mailto:a@b", Url(scheme="mailto")),
        ("https://h:99999", Url(scheme="https", host="h:99999")),
        ("1a/b", Url(path="1a/b")),
    ],
)
def test_what_a_url_consists_of(text: str, url: Url) -> None:
    assert parse(text) == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://a b", 'invalid character " " in host name'),
        ("https://h:http", 'invalid port ":http" after host'),
        ("https://h:1:2", 'invalid port ":1:2" after host'),
        ("https://h/%zz", 'invalid URL escape "%zz"'),
        ("https://h/%4", 'invalid URL escape "%4"'),
        ("https://%41", 'invalid URL escape "%41"'),
        ("https://[::1", "missing ']' in host"),
        ("https://[::1]x", 'invalid port "x" after host'),
        ("https://[1.2.3.4]", "invalid IP-literal"),
        ("https://a[::1]", "invalid IP-literal"),
        ("https://a^b@h", "net/url: invalid userinfo"),
        ("https://h\x7f", "net/url: invalid control character in URL"),
        ("://h", "missing protocol scheme"),
        ("1a:b", "first path segment in URL cannot contain colon"),
    ],
)
def test_what_is_no_url(text: str, why: str) -> None:
    quoted = text.replace("\x7f", "\\x7f")
    with pytest.raises(MalformedUrl) as refused:
        parse(text)
    assert str(refused.value) == f'parse "{quoted}": {why}'


@pytest.mark.parametrize(
    ("text", "is_fine"), [("/a b", True), ("a:b", True), ("", False), ("a", False), ("a/b", False)]
)
def test_what_may_be_requested_is_absolute(text: str, is_fine: bool) -> None:
    try:
        parse(text, is_request=True)
    except MalformedUrl:
        assert not is_fine
    else:
        assert is_fine
