"""Lines of the log, for people and as JSON, with the id of the request that they are about."""

from __future__ import annotations

import json
import logging
import sys

from fairlead.runtime.log_lines import AUDIT_ID, JsonLines, TextLines


def record(level: int, text: str, *args: object, audit_id: str = "") -> logging.LogRecord:
    try:
        raise ValueError("no\nnumber")
    except ValueError:
        caught = sys.exc_info() if level >= logging.ERROR else None
    found = logging.LogRecord("fairlead.x", level, "/src/server/chain.py", 7, text, args, caught)
    if audit_id:
        setattr(found, AUDIT_ID, audit_id)
    return found


def test_text_names_the_request_and_stays_a_line() -> None:
    line = TextLines().format(record(logging.WARNING, "GET %s", "/a\nE fairlead.x: forged\x1b[2J", audit_id="id-1"))
    assert line == 'W fairlead.x: GET /a\\nE fairlead.x: forged\\x1b[2J audit-ID="id-1"'
    first, second, *_ = TextLines().format(record(logging.ERROR, "broken")).splitlines()
    assert (first, second) == ("E fairlead.x: broken", "Traceback (most recent call last):")


def test_json_has_the_keys_of_kubernetes_components() -> None:
    line = json.loads(JsonLines().format(record(logging.WARNING, "GET %s", "/a", audit_id="id-1")))
    assert abs(line.pop("ts") / 1000 - record(logging.INFO, "").created) < 60
    expected = {"logger": "fairlead.x", "caller": "server/chain.py:7", "msg": "GET /a", "v": 0, "audit-ID": "id-1"}
    assert line == expected
    text = JsonLines().format(record(logging.ERROR, "broken"))
    error = json.loads(text)
    assert (error["err"], "v" in error, "\n" in text) == ("ValueError: no\nnumber", False, False)
    assert error["stacktrace"].startswith("Traceback")
