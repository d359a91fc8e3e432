"""The page about streams: its example prints what it says, and its tables name what the code knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.runtime.streaming import command_protocols, port_forward

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/streams.md", "exec"), {})
    expected = re.findall(r"^# (.*)$", example, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


def test_every_protocol_is_named() -> None:
    for spoken in (command_protocols.SPOKEN, port_forward.SPOKEN):
        for protocol in {*spoken.over_spdy, *spoken.over_websocket} - {""}:
            assert f"`{protocol}`" in PAGE
