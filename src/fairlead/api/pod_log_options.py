"""PodLogOptions: which part of a container's log is asked for, as API server and kubelet read it from a query.

Source: pkg/apis/core/validation/validation.go (`ValidatePodLogOptions`) (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from fairlead.api.errors import BadRequest
from fairlead.api.fields import Errors
from fairlead.golang.numbers import parse_bool, parse_int

ALL: Final = "All"
_STREAMS: Final = (ALL, "Stderr", "Stdout")


class PodLogOptions(msgspec.Struct, frozen=True):
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: str = ALL

    @classmethod
    def read(cls, query: Mapping[str, str]) -> PodLogOptions:
        """What a query says. BadRequest: it cannot be read."""

        def number(name: str) -> int | None:
            return parse_int(query[name]) if query.get(name) else None

        try:
            return cls(
                follow=_flag(query, "follow"),
                previous=_flag(query, "previous"),
                timestamps=_flag(query, "timestamps"),
                since_seconds=number("sinceSeconds"),
                since_time=_time(query.get("sinceTime", "")),
                tail_lines=number("tailLines"),
                limit_bytes=number("limitBytes"),
                stream=query.get("stream") or ALL,
            )
        except ValueError as error:
            raise BadRequest(str(error)) from None

    def validate(self) -> Errors:
        """What makes no sense."""
        errors = Errors()
        if self.tail_lines is not None and self.tail_lines < 0:
            errors.invalid("tailLines", self.tail_lines, "must be greater than or equal to 0")
        if self.limit_bytes is not None and self.limit_bytes < 1:
            errors.invalid("limitBytes", self.limit_bytes, "must be greater than 0")
        if self.since_seconds is not None and self.since_time is not None:
            errors.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        elif self.since_seconds is not None and self.since_seconds < 1:
            errors.invalid("sinceSeconds", self.since_seconds, "must be greater than 0")
        if self.stream not in _STREAMS:
            errors.not_supported("stream", self.stream, _STREAMS)
        elif self.stream != ALL and self.tail_lines is not None:
            errors.forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now")
        return errors


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and parse_bool(query[name])


def _time(text: str) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text:
        raise ValueError(f"{text!r} is no RFC 3339 time")
    return moment
