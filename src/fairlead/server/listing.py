"""Lists as of a version: which state a client may ask for, and pages that stay consistent.

The rules are those of kube-apiserver: no resourceVersion means the newest state, "0" any, a number with `Exact` that
very state (or 410 if it is forgotten), a version from the future is waited for three seconds. A continue
token carries the version of the first page, so that all pages show one state.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.errors import BadRequest, Cause, Expired, ServerTimeout, Unknown
from fairlead.api.fields import Errors, go_quote
from fairlead.api.verbs import Listing, ListQuery, WatchQuery
from fairlead.runtime.clock import monotonic
from fairlead.server.cache import Cache, Entry, Matches
from fairlead.server.gonumbers import parse_uint
from fairlead.store.base import Store

#: How long a request waits for a version that does not exist yet.
FUTURE_VERSION_SECONDS = 3.0
_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class _Token:
    """Where a list goes on: the version of its first page, and the last key that was shown."""

    revision: int
    start: tuple[str, str]


class _Wire(msgspec.Struct):
    v: str
    rv: int
    start: str


def list_page(
    cache: Cache,
    namespace: str,
    query: ListQuery,
    matches: Matches | None,
    current: int,
    shown: Callable[[Entry], Encoded],
) -> Listing:
    """One page. `current` is the newest revision of the whole store; `shown` turns an entry into what is returned."""
    token = _token(query)
    exact = token.revision if token else _exact_revision(query)
    if exact is None or exact >= current:
        entries = cache.entries(namespace)
        revision = current
    else:
        state = cache.entries_at(exact, namespace)
        if state is None:
            raise _forgotten(query)
        entries, revision = iter(state), exact
    if token:
        entries = (entry for entry in entries if (entry.namespace, entry.name) > token.start)
    if matches is not None:
        entries = (entry for entry in entries if matches(entry))
    if query.limit <= 0:
        return Listing([shown(entry) for entry in entries], str(revision))
    page = list(islice(entries, query.limit))
    rest = sum(1 for _ in entries)
    items = [shown(entry) for entry in page]
    if not rest:
        return Listing(items, str(revision))
    follow = _encode(revision, page[-1])
    return Listing(items, str(revision), follow, rest if matches is None else None)


def _exact_revision(query: ListQuery) -> int | None:
    revision = parse_revision(query.resource_version)
    if query.resource_version_match == "Exact":
        return revision
    if query.limit > 0 and revision > 0 and not query.resource_version_match:
        return revision  # the legacy rule: a limit with a version means exactly that version
    return None


def _forgotten(query: ListQuery) -> Expired:
    if not query.continue_token:
        return Expired("The resourceVersion for the provided list is too old.")
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )


def parse_revision(text: str) -> int:
    """A resourceVersion as a number; on reads kube-apiserver has no reason for refusing a malformed one."""
    if not text:
        return 0
    try:
        return parse_uint(text)
    except ValueError as error:
        raise Unknown(f"resourceVersion: Invalid value: {go_quote(text)}: {error}") from None


def too_new(wanted: int, current: int) -> ServerTimeout:
    """The refusal of a version from the future."""
    return ServerTimeout(
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after_seconds=1,
    )


async def wait_for(store: Store, wanted: int) -> None:
    """Give a version that does not exist yet three seconds to come."""
    deadline = monotonic() + FUTURE_VERSION_SECONDS
    while store.revision < wanted:
        if monotonic() >= deadline:
            raise too_new(wanted, store.revision)
        await asyncio.sleep(0.05)


def check_list(query: ListQuery) -> None:
    """Refuse contradictory options (ValidateListOptions)."""
    errors = Errors()
    match = query.resource_version_match
    if match:
        path = "resourceVersionMatch"
        if not query.resource_version:
            errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if query.continue_token:
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
        if match not in _MATCHES:
            errors.not_supported(path, match, _MATCHES)
        if match == "Exact" and query.resource_version == "0":
            errors.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    errors.raise_invalid("ListOptions", "", "meta.k8s.io")


def check_watch(query: WatchQuery) -> None:
    """Refuse contradictory options of a watch."""
    errors = Errors()
    match, path = query.resource_version_match, "resourceVersionMatch"
    if query.send_initial_events is not None:
        if match != "NotOlderThan":
            errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            if match:
                errors.not_supported(path, match, ("NotOlderThan",))
    elif match:
        errors.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    errors.raise_invalid("ListOptions", "", "meta.k8s.io")


def _token(query: ListQuery) -> _Token | None:
    if not query.continue_token:
        return None
    if query.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    try:
        padded = query.continue_token + "=" * (-len(query.continue_token) % 4)
        wire = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Wire)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise BadRequest("continue key is not valid: illegal base64 data or JSON") from None
    if wire.v != "meta.k8s.io/v1" or wire.rv <= 0:
        raise BadRequest("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    namespace, _, name = wire.start.rpartition("/")
    return _Token(wire.rv, (namespace, name))


def _encode(revision: int, last: Entry) -> str:
    wire = _Wire("meta.k8s.io/v1", revision, f"{last.namespace}/{last.name}")
    return base64.urlsafe_b64encode(msgspec.json.encode(wire)).decode().rstrip("=")
