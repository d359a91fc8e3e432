"""Impersonation: a user who may do so acts as somebody else.

Since KEP-5284 there are narrow permissions beside the old one: `impersonate-on:MODE:VERB` on what is asked, together
with `impersonate:MODE` on whom. The narrow modes are tried first, and the first of them tells why it did not help.
Source: k8s.io/apiserver, endpoints/filters/impersonation (1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import unquote

import msgspec

from fairlead.api import names
from fairlead.api.errors import BadRequest, Forbidden
from fairlead.api.users import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE_OF_ACCOUNT,
    NODES,
    UNAUTHENTICATED,
    User,
    account_of,
    node_of,
)
from fairlead.golang.quoting import go_quote
from fairlead.server.access import AccessRequest, Authorizer, check, forbidden

_USER: Final = b"impersonate-user"
_GROUP: Final = b"impersonate-group"
_UID: Final = b"impersonate-uid"
_EXTRA: Final = b"impersonate-extra-"
_PREFIX: Final = b"impersonate-"
_GROUP_OF_REVIEWS: Final = "authentication.k8s.io"
#: From how many groups or extra values on it is asked first whether all may be impersonated.
_MANY: Final = 4


def wanted_user(headers: Iterable[tuple[bytes, bytes]]) -> User | None:
    """Whom the request wants to act as, exactly as it says; None if it does not. `BadRequest`: it does not say whom."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    is_asked = False
    for header, raw in headers:
        if not header.startswith(_PREFIX):
            continue
        value = raw.decode("utf-8", "replace")
        if header == _USER:
            name = name or value
        elif header == _UID:
            uid = uid or value
        elif header == _GROUP:
            groups.append(value)
        elif header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA).decode("utf-8", "replace").lower())
            extra[key] = (*extra.get(key, ()), value)
        is_asked = is_asked or bool(uid or groups or extra)
    if not name:
        if is_asked:
            raise BadRequest("requested to impersonate groups, a uid or extra values without impersonating a user name")
        return None
    return User(name, tuple(groups), uid, tuple(sorted(extra.items())))


async def impersonated(authorizer: Authorizer, request: AccessRequest, wanted: User) -> tuple[User, str]:
    """The user as whom the request goes on, and the verb that allowed it if it was a narrow one.

    `Forbidden` if whoever asks may not act as that one.
    """
    first: Forbidden | None = None
    for mode in _modes(request.user, wanted):
        try:
            if mode:
                asked = msgspec.structs.replace(request, verb=f"impersonate-on:{mode.name}:{request.verb}")
                await _check(authorizer, mode.seen_as(asked))
            user = await _Attempt(authorizer, request.user, wanted, mode).carry_out()
            return user, mode.verb if mode else ""
        except Forbidden as refusal:
            first = first or refusal
    assert first is not None
    try:
        raise first
    finally:
        del first  # it holds this frame


class _Mode(msgspec.Struct, frozen=True):
    """One of the narrow ways to impersonate."""

    name: str
    #: How authorization sees a request in this mode.
    seen_as: Callable[[AccessRequest], AccessRequest] = lambda request: request

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}"


def _as_any_node(request: AccessRequest) -> AccessRequest:
    """The requester is on that node itself, so what is asked is whether it may act as whatever node it is on."""
    keys = tuple(sorted(key for key, _ in request.user.extra))
    user = User(
        request.user.name,
        request.user.groups,
        request.user.uid,
        (("authentication.kubernetes.io/associated-node-keys", keys),),
    )
    name = "*" if request.verb == "impersonate:associated-node" else request.name
    return msgspec.structs.replace(request, user=user, name=name)


_ASSOCIATED_NODE: Final = _Mode("associated-node", _as_any_node)
_ARBITRARY_NODE: Final = _Mode("arbitrary-node")
_SERVICE_ACCOUNT: Final = _Mode("serviceaccount")
_USER_INFO: Final = _Mode("user-info")


def _modes(requester: User, wanted: User) -> Iterable[_Mode | None]:
    """The modes in which that user can be impersonated at all; None is the old permission, which is always asked."""
    only_name = not (wanted.groups or wanted.uid or wanted.extra)
    node, account = node_of(wanted.name), account_of(wanted.name)
    if node and only_name:
        if account_of(requester.name) and requester.extra_value(NODE_OF_ACCOUNT) == node:
            yield _ASSOCIATED_NODE
        yield _ARBITRARY_NODE
    elif account and only_name:
        yield _SERVICE_ACCOUNT
    elif not node and not account:
        yield _USER_INFO
    yield None


class _Attempt(msgspec.Struct, frozen=True):
    """Impersonation in one mode: each thing that is wanted must be allowed."""

    authorizer: Authorizer
    requester: User
    wanted: User
    mode: _Mode | None

    async def carry_out(self) -> User:
        groups = await self._name()
        if self.wanted.uid:
            await self._check(self._request("uids", self.wanted.uid, _GROUP_OF_REVIEWS))
        await self._groups()
        await self._extra()
        return User(self.wanted.name, _completed(self.wanted.name, groups), self.wanted.uid, self.wanted.extra)

    async def _name(self) -> tuple[str, ...]:
        """Check the name; returns the groups that come with it."""
        name, groups = self.wanted.name, self.wanted.groups
        request = self._request("users", name)
        node, account = node_of(name), account_of(name)
        if node and self.mode:
            request, groups = self._request("nodes", node), (NODES,)
        elif account:
            request = msgspec.structs.replace(
                self._request("serviceaccounts", account.name), namespace=account.namespace
            )
            groups = groups or account.groups
        await self._check(request)
        return groups

    async def _groups(self) -> None:
        groups = self.wanted.groups
        request = self._request("groups", "")
        if self.mode:
            if "" in groups:
                raise forbidden(request, "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                request = self._request("groups", MASTERS)
                raise forbidden(request, "impersonating the system:masters group is not allowed")
            if len(groups) >= _MANY and await self._is_allowed(self._request("groups", "*")):
                return
        for group in groups:
            await self._check(self._request("groups", group))

    async def _extra(self) -> None:
        extra = self.wanted.extra
        if not extra:
            return
        request = self._request("userextras", "", _GROUP_OF_REVIEWS)
        if self.mode:
            if why := _wrong_extra(extra):
                raise forbidden(request, why)
            everything = msgspec.structs.replace(request, subresource="*", name="*")
            if sum(len(values) for _, values in extra) >= _MANY and await self._is_allowed(everything):
                return
        for key, values in extra:
            for value in values:
                await self._check(msgspec.structs.replace(request, subresource=key, name=value))

    def _request(self, resource: str, name: str, group: str = "") -> AccessRequest:
        verb = self.mode.verb if self.mode else "impersonate"
        group = _GROUP_OF_REVIEWS if self.mode else group
        request = AccessRequest(self.requester, verb, group, "v1", resource, name=name)
        return self.mode.seen_as(request) if self.mode else request

    def _check(self, request: AccessRequest) -> Awaitable[None]:
        return _check(self.authorizer, request)

    async def _is_allowed(self, request: AccessRequest) -> bool:
        return (await self.authorizer.authorize(request)).is_allowed


async def _check(authorizer: Authorizer, request: AccessRequest) -> None:
    check(await authorizer.authorize(request), request)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of everybody who is known, or unknown, are never left out."""
    if name == ANONYMOUS:
        missing = UNAUTHENTICATED
    elif UNAUTHENTICATED in groups:
        return groups
    else:
        missing = AUTHENTICATED
    return groups if missing in groups else (*groups, missing)


def _wrong_extra(extra: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """Why those extra values cannot be impersonated in a narrow mode; "" if they can."""
    for key, values in extra:
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if wrong := names.domain_prefixed_path(key):
            part, text = wrong[0]
            return f'impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "{part}": {text}'
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""
