"""One registry, asked for one repository: the distribution protocol v2, with the logins that registries ask for.

A registry is a stranger: its answers are bounded, and it waits no longer than a minute for each piece. Registries on
the loopback are asked over plain HTTP, as containerd does; all others over TLS alone.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from fairlead import __version__
from fairlead.agent.images.challenges import Challenge, challenge
from fairlead.agent.images.credentials import Credential
from fairlead.agent.images.errors import PullFailed
from fairlead.agent.images.limits import PIECE
from fairlead.agent.images.references import DOCKER_HUB, Reference
from fairlead.client.calls import why
from fairlead.golang.quoting import go_quote

if TYPE_CHECKING:
    import aiohttp  # slow to import, and most commands ask no registry

_CONNECT_SECONDS, _PIECE_SECONDS = 30.0, 60.0
_MOST_REDIRECTS: Final = 5
_MOST_TOKEN: Final = 1 << 20
_MOST_QUOTED: Final = 500
_DENIED: Final = "pull access denied, repository does not exist or may require authorization: "


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


class Registry:
    """Use it with `async with`. Raises PullFailed, whose text begins where containerd's does."""

    def __init__(self, reference: Reference, credential: Credential | None) -> None:
        host = f"registry-1.{DOCKER_HUB}" if reference.domain == DOCKER_HUB else reference.domain
        self._is_local = is_loopback(host)
        self._base = f"{'http' if self._is_local else 'https'}://{host}/v2/{reference.path}"
        self._scope = f"repository:{reference.path}:pull"
        self._credential = credential
        self._authorization = ""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Registry:
        import aiohttp

        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"fairlead/{__version__}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_PIECE_SECONDS),
            trust_env=not self._is_local,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def url(self, place: str) -> str:
        """Of a manifest or a blob."""
        return f"{self._base}/{place}"

    async def document(self, place: str, most: int, accept: str = "*/*") -> tuple[bytes, Mapping[str, str]]:
        """A manifest or a small blob, and the headers of the answer."""
        async with self.opened(place, {"Accept": accept}) as response:
            return await self._bounded(response, most), response.headers

    @asynccontextmanager
    async def opened(self, place: str, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to be read on; it is one of success. Logs in where that is asked for."""
        url = self.url(place)
        for is_last in (False, True):
            async with self._asked(url, {**headers, **self._login()}) as response:
                if response.status == 401 and not is_last:
                    asked = challenge(response.headers.getall("WWW-Authenticate", []))
                else:
                    _raise_for(response, url, await self._refusal(response))
                    yield response
                    return
            self._authorization = await self._logged_in(asked)

    def _login(self) -> Mapping[str, str]:
        return {"Authorization": self._authorization} if self._authorization else {}

    async def _logged_in(self, asked: Challenge | None) -> str:
        """The header with which the registry lets in whom it has challenged."""
        if asked is None:
            raise PullFailed(f"{_DENIED}authorization failed")
        if asked.scheme == "bearer":
            return f"Bearer {await self._token(asked)}"
        if self._credential is None:
            raise PullFailed(f"{_DENIED}authorization failed: no basic auth credentials")
        return _basic(self._credential)

    async def _token(self, asked: Challenge) -> str:
        realm = urlsplit(asked.realm)
        if realm.scheme != "https" and not (realm.scheme == "http" and self._is_local):
            raise PullFailed(
                f"failed to authorize: the registry's tokens are not had over TLS, but at {go_quote(asked.realm)}"
            )
        kind = "anonymous" if self._credential is None else "oauth"
        query = {"scope": asked.scope or self._scope} | ({"service": asked.service} if asked.service else {})
        headers = {} if self._credential is None else {"Authorization": _basic(self._credential)}
        try:
            async with self._asked(asked.realm, headers, query) as response:
                if response.status != 200:
                    status = f"{response.status} {response.reason}"
                    raise PullFailed(f"unexpected status from GET request to {response.url}: {status}")
                answer = msgspec.json.decode(await self._bounded(response, _MOST_TOKEN), type=_Token)
        except PullFailed as error:
            raise PullFailed(f"failed to authorize: failed to fetch {kind} token: {error}", error.code) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PullFailed(f"failed to authorize: unable to decode token response: {error}") from None
        token = answer.token or answer.access_token
        if not (token and token.isascii() and token.isprintable()):
            raise PullFailed("failed to authorize: authorization server did not include a token in the response")
        return token

    @asynccontextmanager
    async def _asked(
        self, url: str, headers: Mapping[str, str], query: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        assert self._session is not None
        try:
            async with self._session.get(url, headers=headers, params=query, max_redirects=_MOST_REDIRECTS) as response:
                if response.url.scheme != "https" and not self._is_local:
                    where = f"it leads to plain HTTP, at {response.url}"
                    raise PullFailed(f"failed to do request: Get {go_quote(url)}: {where}")
                yield response
        except aiohttp.TooManyRedirects:
            raise PullFailed(
                f"failed to do request: Get {go_quote(url)}: stopped after {_MOST_REDIRECTS} redirects"
            ) from None
        except aiohttp.ClientError as error:
            raise PullFailed(
                f"failed to do request: Get {go_quote(url)}: {why(error, urlsplit(url).hostname)}"
            ) from None
        except TimeoutError:
            raise PullFailed(
                f"failed to do request: Get {go_quote(url)}: net/http: timeout awaiting response"
            ) from None
        except ValueError as error:  # what aiohttp says of a URL or of a header that is none
            raise PullFailed(f"failed to do request: Get {go_quote(url)}: {error}") from None

    async def _refusal(self, response: aiohttp.ClientResponse) -> str:
        if response.status < 400:
            return ""
        return (await response.content.read(_MOST_QUOTED)).decode(errors="replace").strip()

    async def _bounded(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        pieces, size = [], 0
        async for piece in response.content.iter_chunked(PIECE):
            size += len(piece)
            if size > most:
                raise PullFailed(f"the answer of {response.url} has more than {most} bytes")
            pieces.append(piece)
        return b"".join(pieces)


def is_loopback(host: str) -> bool:
    """Whether a registry, with or without a port, is on this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _raise_for(response: aiohttp.ClientResponse, url: str, refusal: str) -> None:
    if response.status in (200, 206):
        return
    if response.status == 404:
        raise PullFailed("not found", "NotFound")
    if response.status == 401:
        raise PullFailed(f"{_DENIED}server message: insufficient_scope: authorization failed")
    if response.status == 403:
        raise PullFailed(f"{_DENIED}server message: denied: {refusal or 'forbidden'}")
    status = f"{response.status} {response.reason}"
    raise PullFailed(f"unexpected status from GET request to {url}: {status}{f': {refusal}' if refusal else ''}")


def _basic(credential: Credential) -> str:
    return f"Basic {base64.b64encode(f'{credential.username}:{credential.password}'.encode()).decode()}"
