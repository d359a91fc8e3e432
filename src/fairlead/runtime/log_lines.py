"""Lines of the log: as text for people, or as JSON with the keys of Kubernetes' components (`--logging-format`).

A line that is about a request ends with its `audit-ID`, under which the audit log tells of it, and which the client has
in the header `Audit-Id`. Source: k8s.io/component-base, logs/json (1.36).
"""

from __future__ import annotations

import logging
from pathlib import PurePath
from typing import Any, Final

import msgspec

#: How a record says that it is about a request: `log.error(…, extra={AUDIT_ID: …})`.
AUDIT_ID: Final = "audit_id"
_SHOWN_ID: Final = "audit-ID"
FORMATS: Final = ("text", "json")

_TEXT: Final = "%(levelname).1s %(name)s: %(message)s"
#: Milliseconds of the time, with so many decimals.
_TIME_DIGITS: Final = 4
#: Letters of text that would end a line or hide what is in it.
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)} | {ord("\n"): "\\n", ord("\t"): "\\t"}


def configure(level: int, form: str = FORMATS[0]) -> None:
    """Write what is at least that important to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler])


class TextLines(logging.Formatter):
    """`E fairlead.server.http.chain: GET /api/v1/pods audit-ID="…"`, and the traceback below."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base class says so
        line = super().formatMessage(record).translate(_CONTROL)
        id_ = getattr(record, AUDIT_ID, "")
        return f'{line} {_SHOWN_ID}="{id_.translate(_CONTROL)}"' if id_ else line


class JsonLines(logging.Formatter):
    """One object a line: `ts` (milliseconds), `logger`, `caller`, `msg`, and `v` or, of errors, `err`."""

    def format(self, record: logging.LogRecord) -> str:
        path = PurePath(record.pathname)
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, _TIME_DIGITS),
            "logger": record.name,
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = 0
        if record.exc_info and record.exc_info[1] is not None:
            line["err"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            line["stacktrace"] = self.formatException(record.exc_info)
        if id_ := getattr(record, AUDIT_ID, ""):
            line[_SHOWN_ID] = id_
        return msgspec.json.encode(line).decode()
