"""Channels in texts are those in bytes, wherever a message is cut; nonsense ends the connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.streaming.base64_channels import Base64Pieces, text_of
from fairlead.runtime.streaming.command_protocols import SPOKEN, CommandProtocol
from fairlead.runtime.streaming.command_status import ended
from fairlead.runtime.streaming.websocket_frames import Piece, WebSocketError


@given(
    channel=st.integers(0, 9), data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 300), max_size=6).map(sorted)
)
def test_a_message_says_the_same_wherever_it_is_cut(channel: int, data: bytes, cuts: list[int]) -> None:
    text, pieces = text_of(channel, data), Base64Pieces()
    for _ in range(2):  # the second message is not confused by the first
        found, begin = b"", 0
        for cut in (*cuts, len(text)):
            end = max(begin, min(cut, len(text)))
            found += pieces.decoded(Piece(text[begin:end], begin == 0, end == len(text) and cut == len(text))).data
            begin = end
        assert found == bytes([channel]) + data


@pytest.mark.parametrize("text", [b"x", b"\x00AAAA", b"0A", b"0AAAA=", b"0A!AA", b"0AA\nAA", b"0====", b"0AA==AAAA"])
def test_nonsense_is_told_from_that(text: bytes) -> None:
    with pytest.raises(WebSocketError):
        Base64Pieces().decoded(Piece(text, begins=True, ends=True))


def test_the_first_protocols_tell_a_failure_in_words() -> None:
    for name in {*SPOKEN.over_spdy, *SPOKEN.over_websocket}:
        protocol, is_new = CommandProtocol(name), name[:2] in ("v4", "v5")
        assert (protocol.end(ended(0)) == b"") is not is_new
        told = b"command terminated with non-zero exit code: exit status 3"
        assert (protocol.end(ended(3)) == told) is not is_new
