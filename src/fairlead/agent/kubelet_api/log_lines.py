"""Lines of a container's log in CRI's format, `TIME STREAM TAGS TEXT`, to what a client is shown of them.

A line that the container wrote in one go may be several in the file: all but the last have the tag `P` and are joined.
Source: cri-client `pkg/logs/logs.go` (1.36).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

#: A line of more bytes is none of CRI's, whose runtimes divide theirs.
MOST_LINE_BYTES: Final = 1 << 20
_PARTIAL: Final = b"P"


class Shown(msgspec.Struct, frozen=True):
    """What is to be shown of each line."""

    has_timestamps: bool = False
    #: "stdout", "stderr", or "" for both.
    stream: str = ""
    #: None: from the beginning.
    since: datetime | None = None


class LineFormatter:
    """Turns pieces of a log, cut anywhere, into what is shown."""

    def __init__(self, shown: Shown) -> None:
        self._shown, self._stream = shown, shown.stream.encode()
        self._rest = b""
        self._is_too_long = False
        #: Whether the next text of a stream begins a line.
        self._begins = {b"stdout": True, b"stderr": True}

    def format(self, piece: bytes) -> bytes:
        *lines, rest = (self._rest + piece).split(b"\n")
        if self._is_too_long and lines:
            lines[0], self._is_too_long = b"", False
        if len(rest) > MOST_LINE_BYTES:
            rest, self._is_too_long = b"", True
        self._rest = rest
        return b"".join([self._line(line) for line in lines])

    def _line(self, line: bytes) -> bytes:
        """What is shown of one; nothing of what is no line of a log."""
        parts = line.split(b" ", 3)
        if len(parts) < 3:
            return b""
        time, stream, tags = parts[:3]
        text = parts[3] if len(parts) == 4 else b""
        if stream not in self._begins or (self._stream and stream != self._stream) or not self._is_due(time):
            return b""
        begins = self._begins[stream]
        is_partial = tags.partition(b":")[0] == _PARTIAL
        self._begins[stream] = not is_partial
        if not is_partial:
            text += b"\n"
        return b"%b %b" % (time, text) if begins and self._shown.has_timestamps else text

    def _is_due(self, time: bytes) -> bool:
        if self._shown.since is None:
            return True
        try:
            return datetime.fromisoformat(time.decode("ascii")) >= self._shown.since
        except (ValueError, TypeError):
            return False
