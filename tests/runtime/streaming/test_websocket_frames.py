"""The frames of WebSocket: what a client sends is read however it is cut, and what is none is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.streaming.websocket_frames import (
    Control,
    FrameReader,
    Opcode,
    Piece,
    WebSocketError,
    frame,
    masked,
)

_MASKS = st.binary(min_size=4, max_size=4)


def client_frame(opcode: int, data: bytes, mask: bytes = b"mask", *, is_final: bool = True) -> bytes:
    """As a client writes it."""
    plain = frame(Opcode.BINARY, data)
    size = len(plain) - len(data)
    head = bytes([(0x80 if is_final else 0) | opcode, plain[1] | 0x80]) + plain[2:size]
    return head + mask + masked(data, mask)


@given(st.binary(max_size=50), _MASKS, st.integers(0, 50))
def test_a_mask_goes_on_where_it_was(data: bytes, mask: bytes, at: int) -> None:
    expected = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    assert masked(data[:at], mask) + masked(data[at:], mask, len(data[:at])) == expected


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=3), max_size=5),
    _MASKS,
    st.lists(st.integers(0, 100), max_size=30),
)
def test_messages_are_read_however_they_are_cut(messages: list[list[bytes]], mask: bytes, sizes: list[int]) -> None:
    sent = b""
    for fragments in messages:
        for number, data in enumerate(fragments):
            opcode = Opcode.CONTINUATION if number else Opcode.BINARY
            sent += client_frame(opcode, data, mask, is_final=number == len(fragments) - 1)
            sent += client_frame(Opcode.PING, b"between", mask)
    reader, found, at = FrameReader(), [], 0
    for size in [*sizes, len(sent)]:
        for event in reader.feed(sent[at : at + size]):
            if isinstance(event, Control):
                assert event == Control(Opcode.PING, b"between")
            elif event.begins:
                found.append([event])
            else:
                found[-1].append(event)
        at += size
    assert [b"".join(piece.data for piece in pieces) for pieces in found] == [b"".join(m) for m in messages]
    assert all([piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True] for pieces in found)


@given(st.binary(max_size=300))
def test_what_is_no_websocket_is_refused_and_nothing_else_happens(data: bytes) -> None:
    try:
        for event in FrameReader().feed(data):
            assert isinstance(event, Piece | Control)
    except WebSocketError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (frame(Opcode.BINARY, b"x"), "without a mask"),
        (b"\xf2\x81maskx", "reserved bits"),
        (b"\x83\x81maskx", "unknown kind"),
        (client_frame(Opcode.CONTINUATION, b"x"), "the rest of none"),
        (client_frame(Opcode.BINARY, b"x", is_final=False) * 2, "a message within a message"),
        (client_frame(Opcode.PING, b"x" * 126), "too long"),
        (client_frame(Opcode.PING, b"x", is_final=False), "not whole"),
        (struct.pack(">BBQ", 0x82, 0xFF, 1 << 63) + b"mask", "negative length"),
    ],
)
def test_what_the_protocol_forbids_is_said(sent: bytes, why: str) -> None:
    with pytest.raises(WebSocketError, match=why):
        list(FrameReader().feed(sent))


def test_a_message_is_passed_on_before_it_is_whole() -> None:
    reader, sent = FrameReader(), client_frame(Opcode.BINARY, b"x" * 100_000)
    first = list(reader.feed(sent[:1000]))
    assert len(first) == 1 and isinstance(first[0], Piece) and first[0].begins and not first[0].ends


def test_a_large_message_is_unmasked_fast() -> None:
    """In a thousandth of the time that a loop over its bytes takes."""
    data = bytes(1 << 20)
    assert masked(masked(data, b"mask"), b"mask") == data
