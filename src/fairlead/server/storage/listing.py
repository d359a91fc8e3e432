"""Lists as of a version: which state a client may ask for, and pages that stay consistent.

The rules are those of kube-apiserver: no resourceVersion means the newest state, "0" any, a number with `Exact` that
very state (or 410 if it is forgotten), a version from the future is waited for three seconds. A continue
token carries the version of the first page, so that all pages show one state. Should that be forgotten meanwhile, or
the token be as old as what kube-apiserver compacts away, the 410 brings a token with which the list goes on at the
newest state.

Source: apiserver `storage/{continue,interfaces}.go`, `storage/etcd3/errors.go` and `storage/cacher/cacher.go`;
apimachinery `apis/meta/internalversion/validation/validation.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.builtin import EVENTS
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import BadRequest, Cause, Expired, ServerTimeout, Unknown
from fairlead.api.fields import Errors
from fairlead.api.verbs import Listing, ListQuery, WatchQuery
from fairlead.golang.base64 import decode_url, encode_url
from fairlead.golang.json import parse
from fairlead.golang.numbers import parse_uint
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import unmarshal_error
from fairlead.runtime.clock import monotonic, now
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.entries import Entry, in_version
from fairlead.server.storage.selection import NAME
from fairlead.server.storage.watchers import Matches, Selection
from fairlead.store.base import Store

#: How long a list may take from its first page to its last (kube-apiserver's --etcd-compaction-interval).
PAGES_SECONDS: Final = 300
#: How long a request waits for a version that does not exist yet.
FUTURE_VERSION_SECONDS = 3.0
#: How much is filtered before other tasks get a turn.
TURN_BYTES = 2 << 20
#: How many objects somebody else converts before it is known which of them are selected.
CONVERTED_AT_ONCE: Final = 500
_MATCHES = ("Exact", "NotOlderThan")

#: Converts entries to the version that is asked for.
Conversion: TypeAlias = Callable[[list[Encoded]], Awaitable[list[Encoded]]]


_TOKEN_VERSION = "meta.k8s.io/v1"
#: The version of a token that goes on at the newest state.
_NEWEST = -1


class _ContinueToken(msgspec.Struct, frozen=True):
    """Where a list goes on: the version of its first page, and the first key that may be shown (`Cache.entries`)."""

    revision: int
    start: str
    #: When the first page was shown, in seconds since the Unix epoch; 0 is unknown, as in a token of another server.
    began: int = 0

    @property
    def is_old(self) -> bool:
        return self.began > 0 and now() - self.began > PAGES_SECONDS

    def encode(self) -> str:
        began = {"began": self.began} if self.began else {}
        return encode_url(encode({"v": _TOKEN_VERSION, "rv": self.revision, "start": self.start} | began))


async def list_page(
    cache: Cache,
    query: ListQuery,
    selection: Selection,
    current: int,
    shown: Callable[[Entry], Encoded],
    candidates: Sequence[Entry] | None = None,
    convert: Conversion | None = None,
) -> Listing:
    """One page. `current` is the newest revision of the whole store; `shown` turns an entry into what is returned;
    `candidates` are entries of now, in order, beside which nothing is selected. `convert` is who converts entries.
    """
    token, namespace, matches = _token(query), selection.namespace, selection.matches
    exact = token.revision if token else _exact_revision(query)
    at = None if exact is None or exact < 0 or exact >= current else exact
    state = None if token and token.is_old else cache.state(namespace, token.start if token else "", at)
    if state is None:
        raise _forgotten(token)
    entries, limit = state.entries, _limit(cache, query)
    if candidates is not None and at is None and token is None:
        entries = iter(candidates)
    if name := selection.exact(NAME):  # one key: nothing lies behind it
        entries = (entry for entry in entries if entry.name == name or (entry.namespace and not namespace))
    if selection.converted is not None and convert is not None:
        chosen = list(entries) if matches is None else (await filtered(list(entries), matches))[0]
        page, rest = await _converted(chosen, selection.converted, convert, limit)
    elif matches is None:
        page = list(islice(entries, limit) if limit > 0 else entries)
        rest = state.size - len(page)
    else:
        page, rest = await filtered(list(entries), matches, limit)
    items, revision = [shown(entry) for entry in page], current if at is None else at
    if not rest:
        return Listing(items, str(revision))
    began = token.began if token and token.revision > 0 else int(now())
    follow = _ContinueToken(revision, _after(page[-1], namespace), began)
    is_selected = matches is not None or selection.converted is not None
    return Listing(items, str(revision), follow.encode(), None if is_selected else rest)


async def filtered(entries: Sequence[Entry], matches: Matches, limit: int = 0) -> tuple[list[Entry], int]:
    """The first `limit` entries that match (0: all), and how many entries lie behind them, matching or not.

    Matching may decode an entry, so this yields to other tasks from time to time.
    """
    found: list[Entry] = []
    size = 0
    for number, entry in enumerate(entries, 1):
        if matches(entry):
            found.append(entry)
            if len(found) == limit:
                return found, len(entries) - number
        size += len(entry.raw)
        if size >= TURN_BYTES:
            size = 0
            await asyncio.sleep(0)
    return found, 0


async def _converted(
    entries: Sequence[Entry], matches: Matches, convert: Conversion, limit: int
) -> tuple[list[Entry], int]:
    """The same of what entries are converted to, which is what is found then."""
    found: list[Entry] = []
    for start in range(0, len(entries), CONVERTED_AT_ONCE):
        batch = entries[start : start + CONVERTED_AT_ONCE]
        shown = list(map(in_version, batch, await convert(list(batch))))
        some, rest = await filtered(shown, matches, limit - len(found) if limit > 0 else 0)
        found += some
        if len(found) == limit:
            return found, len(entries) - start - len(batch) + rest
        await asyncio.sleep(0)
    return found, 0


def _limit(cache: Cache, query: ListQuery) -> int:
    """How many entries a page has; resourceVersion "0" gets all of them (`computeListLimit` of the watch cache).

    Events have no watch cache upstream.
    """
    return 0 if query.resource_version == "0" and cache.qualified != EVENTS.qualified else query.limit


def _after(last: Entry, namespace: str) -> str:
    """The smallest key behind that of the last entry of a page."""
    key = f"{last.namespace}/{last.name}" if last.namespace and not namespace else last.name
    return key + "\0"


def _exact_revision(query: ListQuery) -> int | None:
    revision = list_revision(query)
    if query.resource_version_match == "Exact":
        return revision
    if query.limit > 0 and revision > 0 and not query.resource_version_match:
        return revision  # the legacy rule: a limit with a version means exactly that version
    return None


def _forgotten(token: _ContinueToken | None) -> Expired:
    if token is None:
        return Expired("The resourceVersion for the provided list is too old.")
    error = Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    error.continue_token = _ContinueToken(_NEWEST, token.start).encode()
    return error


def list_revision(query: ListQuery) -> int:
    """The resourceVersion of a list as a number."""
    try:
        return parse_revision(query.resource_version)
    except Unknown as error:
        raise BadRequest(f"invalid resource version: {error.message}") from None


def parse_revision(text: str) -> int:
    """A resourceVersion as a number; kube-apiserver has no reason for refusing that of a get or a watch."""
    if not text:
        return 0
    try:
        return parse_uint(text)
    except ValueError as error:
        raise Unknown(f"resourceVersion: Invalid value: {go_quote(text)}: {error}") from None


def too_new(requested: int, current: int) -> ServerTimeout:
    """The refusal of a version from the future."""
    return ServerTimeout(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after_seconds=1,
    )


async def wait_for(store: Store, revision: int) -> None:
    """Give a version that does not exist yet three seconds to come."""
    deadline = monotonic() + FUTURE_VERSION_SECONDS
    while store.revision < revision:
        if monotonic() >= deadline:
            raise too_new(revision, store.revision)
        await asyncio.sleep(0.05)


def check_list(query: ListQuery, *, has_initial_events: bool = False) -> None:
    """Refuse contradictory options (ValidateListOptions); `has_initial_events`: `sendInitialEvents` is among them."""
    match = query.resource_version_match
    if not (match or has_initial_events):
        return
    errors = Errors()
    if match:
        path = "resourceVersionMatch"
        if not query.resource_version:
            errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if query.continue_token:
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
        if match not in _MATCHES:
            errors.not_supported(path, match, [*_MATCHES, ""], sort=False)
        if match == "Exact" and query.resource_version == "0":
            errors.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if has_initial_events:
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    errors.raise_invalid("ListOptions", "", "meta.k8s.io")


def check_watch(query: WatchQuery, continue_token: str = "") -> None:
    """Refuse contradictory options of a watch."""
    errors = Errors()
    match, path = query.resource_version_match, "resourceVersionMatch"
    if query.send_initial_events is not None and match != "NotOlderThan":
        errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match:
        if query.send_initial_events is None:
            errors.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        if match != "NotOlderThan":
            errors.not_supported(path, match, ("NotOlderThan",))
        if continue_token:
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
    errors.raise_invalid("ListOptions", "", "meta.k8s.io")


def _token(query: ListQuery) -> _ContinueToken | None:
    """The continue token of a query; a malformed one is refused before a contradicting resourceVersion."""
    if not query.continue_token:
        return None
    try:
        token = _decoded(query.continue_token)
    except ValueError as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    if query.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    return token


def _decoded(text: str) -> _ContinueToken:
    """The decoded continue token; ValueError with upstream's text."""
    token = parse(decode_url(text))
    if token is not None and not isinstance(token, dict):
        raise ValueError(unmarshal_error(token, "storage.continueToken"))
    version, start = _member(token, "v", "string", ""), _member(token, "start", "string", "")
    revision, began = _member(token, "rv", "int64", 0), _member(token, "began", "int64", 0)
    if version != _TOKEN_VERSION:
        raise ValueError(f"server does not recognize this encoded version {version}")
    if not revision:
        raise ValueError(f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
    if not start:
        raise ValueError(f"encoded start key empty (version {_TOKEN_VERSION})")
    key = start.removeprefix("/")
    if key and not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise ValueError(start)
    return _ContinueToken(revision, key, began)


def _member(token: Any, name: str, go: str, missing: Any) -> Any:
    value = (token or {}).get(name)
    if value is None:
        return missing
    if type(value) is not type(missing):
        raise ValueError(unmarshal_error(value, go).replace("Go value", f"Go struct field continueToken.{name}"))
    return value
