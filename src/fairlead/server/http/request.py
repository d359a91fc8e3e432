"""A request as the handlers see it.

Whoever sent it may be anybody until its headers have been looked at: the path and the query are read after that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec.structs import replace

from fairlead.api.errors import BadRequest
from fairlead.api.fields import Errors
from fairlead.api.users import User
from fairlead.api.verbs import ListQuery, WatchQuery, WriteOptions
from fairlead.caches import bounded_cache
from fairlead.golang.durations import parse_seconds
from fairlead.golang.numbers import parse_bool, parse_int
from fairlead.runtime.http.upgrading import UPGRADE, Upgrade
from fairlead.runtime.log_lines import AUDIT_ID
from fairlead.server.access import AccessRequest
from fairlead.server.apply.bodies import check_options, manager_of
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.context import REQUEST_SECONDS, RequestContext
from fairlead.server.http.negotiate import MediaTypeOptions, aggregated_form_of, form_of, plain_form_of
from fairlead.server.http.request_info import RequestInfo, request_info
from fairlead.server.metrics.requests import Endpoint

#: How much of its id the log tells (apiserver, pkg/audit/context.go).
_LONGEST_LOGGED_ID = 64
_LONGEST_LOGGED_PATH = 1024
#: How many parameters a query may have.
MAX_PARAMETERS = 1000

#: What people use, as opposed to programs: `isPrettyPrint` of apiserver's negotiation.
_HUMAN_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")  # `strconv.ParseBool`; elsewhere whatever is not false is true
_VALIDATIONS = ("", "Ignore", "Warn", "Strict")


def _nothing() -> None:
    """Nobody wants to know."""


class Request(msgspec.Struct):
    """Method, path, query, headers and body, with the query's options in typed form."""

    scope: Any
    headers: Mapping[bytes, bytes]
    receive: Callable[[], Awaitable[Any]]
    send: Callable[[Any], Awaitable[None]]
    #: Who sends it, once that is known, or as whom they act; and who it was that showed its credentials.
    user: User | None = None
    requester: User | None = None
    #: Under which id logs tell of it; and what the audit log is told, if anything.
    audit_id: bytes = b""
    audit: RequestAudit | None = None
    #: What is said beside the answer.
    warnings: list[str] = msgspec.field(default_factory=list)
    queries: dict[str, list[str]] = msgspec.field(default_factory=dict)
    query: dict[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    #: Whether its body is still to come: whoever answers reads it.
    has_unread_body: bool = False
    #: What was asked of authorization.
    asked: AccessRequest | None = None
    #: Headers of the answer, whatever it is.
    headers_out: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)
    #: Called once the answer of a watch has begun.
    on_begun: Callable[[], None] = _nothing
    #: When it came, by the stopwatch, and for how many seconds it has waited for others.
    came_at: float = 0.0
    waits: list[float] = msgspec.field(default_factory=list)
    #: What it counts as, once that is known; and whether it is answered by a stream.
    endpoint: Endpoint | None = None
    is_streamed: bool = False
    #: The rest of the answer of a watch, which may take for ever, when everything that stands before it is over.
    rest: Callable[[], Awaitable[None]] | None = None
    _info: RequestInfo | None = None

    def count(self, header: bytes) -> int:
        """How often a header was given."""
        headers = self.scope["headers"]
        if len(headers) == len(self.headers):  # each once, as nearly always
            return int(header in self.headers)
        return sum(name == header for name, _ in headers)

    def replace_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        """From now on it has these."""
        self.scope["headers"], self.headers = headers, dict(reversed(headers))

    def wishes_for(self, *protocols: str) -> bool:
        """Whether the client wants to go on in one of these."""
        upgrade: Upgrade | None = self.scope.get(UPGRADE)
        return upgrade is not None and any(map(upgrade.speaks, protocols))

    def forget(self) -> None:
        """Nobody reads any more what was asked for."""
        self.scope["headers"].clear()
        self.headers, self.query, self.queries = {}, {}, {}
        self.headers_out.clear()

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def info(self) -> RequestInfo:
        """What the request is about."""
        if self._info is None:
            self._info = request_info(self.method, unquote(self.scope["raw_path"].decode("ascii")))
        return self._info

    @property
    def uri(self) -> str:
        """What was asked for, as it was sent."""
        path, query = self.scope["raw_path"], self.scope["query_string"]
        uri: bytes = b"%b?%b" % (path, query) if query else path
        return uri.decode("utf-8", "replace")

    @property
    def log_line(self) -> str:
        """What the log calls it: the path as it was sent, which is one line."""
        path: bytes = self.scope["raw_path"][:_LONGEST_LOGGED_PATH]
        return f"{self.method} {path.decode('ascii', 'replace')}"

    @property
    def log_extra(self) -> dict[str, str]:
        """What the log tells beside a line that is about this request."""
        return {AUDIT_ID: self.audit_id[:_LONGEST_LOGGED_ID].decode("ascii", "replace")}

    @property
    def path(self) -> str:
        return self.info.path

    def context(self, strict_errors: Sequence[str] = (), repeated_keys: Sequence[str] = ()) -> RequestContext:
        """Who asks, and what their body showed."""
        return RequestContext(self.known_user, True, strict_errors, repeated_keys, len(self.body), self.audit)

    @property
    def known_user(self) -> User:
        """Who asks; nobody unknown gets as far as to where this is needed."""
        assert self.user is not None
        return self.user

    def read_query(self) -> None:
        """Take the query apart. Of a parameter that is given twice the first counts, as in apimachinery."""
        raw = self.scope["query_string"]
        if not raw:
            return
        try:
            self.queries = parse_qs(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
        except ValueError:
            raise BadRequest(f"a query may have no more than {MAX_PARAMETERS} parameters") from None
        self.query = {name: values[0] for name, values in self.queries.items()}

    @property
    def accept(self) -> str:
        return self.headers.get(b"accept", b"").decode("latin-1")

    @property
    def full_content_type(self) -> str:
        return self.headers.get(b"content-type", b"").decode("latin-1")

    @property
    def content_type(self) -> str:
        return self.full_content_type.partition(";")[0].strip()

    def form(self, *, is_routed: bool = True, has_rows: bool = True, has_messages: bool = True) -> MediaTypeOptions:
        """How the client wants objects; raises `NotAcceptable`."""
        return self._for_people(form_of(self.accept, is_routed=is_routed, has_rows=has_rows, has_messages=has_messages))

    def plain_form(self, *, is_routed: bool = True) -> MediaTypeOptions:
        """How the client wants what can only be shown as it is; raises `NotAcceptable`."""
        return self._for_people(plain_form_of(self.accept, is_routed=is_routed))

    def aggregated_form(self) -> MediaTypeOptions | None:
        """How the client wants all of discovery in one document, if it does."""
        form = aggregated_form_of(self.accept)
        return form and self._for_people(form)

    def json_form(self) -> MediaTypeOptions:
        """JSON, whatever `Accept` says."""
        return MediaTypeOptions(is_pretty=self.is_pretty)

    def _for_people(self, form: MediaTypeOptions) -> MediaTypeOptions:
        return replace(form, is_pretty=True) if self.is_pretty else form

    @property
    def is_pretty(self) -> bool:
        """Whether a person is going to read the answer."""
        if value := self.query.get("pretty"):
            return value in _TRUE
        return self.headers.get(b"user-agent", b"").startswith(_HUMAN_AGENTS)

    def write_options(self, kind: str) -> WriteOptions:
        """The options of a create, update or patch; `kind` names them in errors (`CreateOptions`)."""
        query = self.query
        user_agent = self.headers.get(b"user-agent", b"").decode("latin-1")
        is_apply = kind == "PatchOptions" and self._is_apply
        if not query and not is_apply:
            return _default_write(user_agent)
        errors = Errors()
        manager = query.get("fieldManager", "")
        has_force = kind == "PatchOptions" and "force" in query
        check_options(errors, manager, is_apply=is_apply, has_force=has_force)
        dry_run, validation = query.get("dryRun"), query.get("fieldValidation", "")
        if dry_run not in (None, "All"):
            errors.not_supported("dryRun", [dry_run], ["All"])
        if validation not in _VALIDATIONS:
            errors.not_supported("fieldValidation", validation, _VALIDATIONS)
        errors.raise_invalid(kind, "", "meta.k8s.io")
        return WriteOptions(
            bool(dry_run), manager_of(manager, user_agent), validation or "Warn", self.flag("force") or False
        )

    @property
    def _is_apply(self) -> bool:
        return self.content_type.startswith("application/apply-patch")

    def list_query(self) -> ListQuery:
        query = self.query
        if not query:
            return _DEFAULT_LIST
        self.number("timeoutSeconds")  # bounds nothing here, but must be a number
        return ListQuery(
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            self.number("limit") or 0,
            query.get("continue", ""),
        )

    def watch_query(self) -> WatchQuery:
        query = self.query
        self.number("limit")  # a watch has no pages, but this must be a number
        version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
        initial = self.flag("sendInitialEvents")
        if self.is_watch and initial is None and not match and version in ("", "0"):
            initial, match = True, "NotOlderThan"  # apimachinery's SetListOptionsDefaults
        return WatchQuery(
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            version,
            match,
            self.flag("allowWatchBookmarks") or False,
            initial,
            self.number("timeoutSeconds"),
        )

    def timeout(self) -> float:
        """How many seconds the client gives us, and itself; `timeout` may ask for less than is usual."""
        try:
            seconds = parse_seconds(self.query.get("timeout") or "0")
        except ValueError as error:
            raise BadRequest(f"invalid timeout specified in the request URL - {error}") from None
        return seconds if 0 < seconds < REQUEST_SECONDS else REQUEST_SECONDS

    def number(self, name: str) -> int | None:
        """An integer of the query, None if it is not given."""
        text = self.query.get(name)
        if text is None:
            return None
        try:
            return parse_int(text)
        except ValueError as error:
            raise BadRequest(str(error)) from None

    def flag(self, name: str) -> bool | None:
        """A boolean of the query, None if it is not given."""
        text = self.query.get(name)
        return None if text is None else parse_bool(text)

    @property
    def is_watch(self) -> bool:
        return bool(self.flag("watch")) if "watch" in self.query else False


@bounded_cache(maxsize=256)
def _default_write(user_agent: str) -> WriteOptions:
    """The options of a request without a query. Clients are few, so each is made once."""
    return WriteOptions(field_manager=manager_of("", user_agent), field_validation="Warn")


_DEFAULT_LIST = ListQuery()
