"""Who may see the dashboard: whoever has the link that was printed, in a browser of this machine.

    /?token=… ─▶ a cookie for this port (HttpOnly, SameSite=Strict) ─▶ everything else asks for the cookie

Other Host headers are refused, for a name of a stranger may lead to this machine (DNS rebinding); so is whatever the
browser says another site has asked for. Nothing is written by any request, so only GET and HEAD are answered.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

#: Everything comes from this origin, nothing is run that stands in the page itself, and nobody may frame it.
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "fairlead",
}
_NO_LINK: Final = "This dashboard asks for its token: open the link that was printed when it started.\n"


class Guard:
    """Lets requests in, or not. Token and cookie are new at every start."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)  # the token is in a link, which may be seen; the cookie never is
        self._cookie = f"fairlead-dashboard-{port}"  # cookies are shared by all ports of a host
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.link = f"http://127.0.0.1:{port}/?token={self.token}"

    def watch_over(self, application: web.Application) -> None:
        application.middlewares.append(self._middleware)
        application.on_response_prepare.append(_add_headers)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._refuse_strangers(request)
        if request.path == "/" and "token" in request.query:
            return self._admitted(request.query["token"])
        if not _is_same(request.cookies.get(self._cookie, ""), self._session):
            raise web.HTTPUnauthorized(text=_NO_LINK)
        return await handler(request)

    def _refuse_strangers(self, request: web.Request) -> None:
        if request.headers.getall("Host", []) not in [[host] for host in self._hosts]:
            raise web.HTTPMisdirectedRequest(text="this is the dashboard of 127.0.0.1 alone\n")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise web.HTTPForbidden(text="another site may not ask the dashboard\n")
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            raise web.HTTPForbidden(text="another site may not ask the dashboard\n")
        if request.method not in ("GET", "HEAD"):
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD"), text="the dashboard only shows\n")

    def _admitted(self, token: str) -> web.Response:
        """The page without the token in its address, which others could see over a shoulder or in the history."""
        if not _is_same(token, self.token):
            raise web.HTTPUnauthorized(text=_NO_LINK)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="Strict", path="/")
        return answer


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
