"""The frames of SPDY/3.1: what is written is read again, however it is cut, and what is none is refused."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.streaming import spdy_frames as frames
from fairlead.runtime.streaming.spdy_frames import Frame, FrameReader, FrameWriter
from fairlead.runtime.streaming.spdy_headers import DICTIONARY, MOST_HEADER_BYTES, SpdyError

_IDS = st.integers(1, (1 << 31) - 1)
_NAMES = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=20).map(str.lower)
_VALUES = st.text(st.characters(codec="latin-1", exclude_characters="\0"), max_size=50)
_HEADERS = st.dictionaries(_NAMES, _VALUES, max_size=8)
_CONTROLS: st.SearchStrategy[Frame] = st.one_of(
    st.builds(frames.SynStream, _IDS, _HEADERS, st.booleans(), st.booleans()),
    st.builds(frames.SynReply, _IDS, _HEADERS, st.booleans()),
    st.builds(frames.Headers, _IDS, _HEADERS, st.booleans()),
    st.builds(frames.RstStream, _IDS, st.integers(1, 11)),
    st.builds(frames.Ping, st.integers(0, (1 << 32) - 1)),
    st.builds(frames.GoAway, _IDS, st.integers(0, 2)),
    st.builds(frames.WindowUpdate, _IDS, _IDS),
    st.builds(frames.Settings),
)
_DATA = st.builds(frames.Data, _IDS, st.binary(max_size=100), st.booleans())


def _cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


def _joined(read: list[Frame]) -> list[Frame]:
    """Data in one piece again."""
    found: list[Frame] = []
    for frame in read:
        last = found[-1] if found else None
        if isinstance(frame, frames.Data) and isinstance(last, frames.Data) and last.stream_id == frame.stream_id:
            found[-1] = frames.Data(frame.stream_id, last.data + frame.data, frame.is_last)
        else:
            found.append(frame)
    return found


@given(st.lists(st.one_of(_CONTROLS, _DATA), max_size=10), st.lists(st.integers(0, 40), max_size=50))
def test_what_is_written_is_read_however_it_is_cut(written: list[Frame], sizes: list[int]) -> None:
    writer, reader = FrameWriter(), FrameReader()
    sent = b"".join(writer.write(frame) for frame in written)
    read = [frame for piece in _cut(sent, sizes) for frame in reader.feed(piece)]
    assert _joined(read) == _joined(written)


@given(st.binary(max_size=300))
def test_what_is_no_spdy_is_refused_and_nothing_else_happens(data: bytes) -> None:
    reader = FrameReader()
    try:
        for frame in reader.feed(data):
            assert isinstance(frame, Frame)
    except SpdyError as error:
        assert str(error)


@given(st.integers(1, 11), st.integers(0, 255), st.binary(max_size=100))
def test_no_control_frame_breaks_the_reader(type_: int, flags: int, body: bytes) -> None:
    frame = struct.pack(">HHI", 0x8003, type_, flags << 24 | len(body)) + body
    try:
        assert len(list(FrameReader().feed(frame))) == 1
    except SpdyError as error:
        assert str(error)


def test_the_dictionary_is_that_of_the_protocol() -> None:
    """Its checksum begins every header block: another one, and nobody else could read ours."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_headers_that_grow_when_they_are_unpacked_are_refused() -> None:
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    packed = packer.compress(b"\0" * (50 * MOST_HEADER_BYTES)) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(packed) < 10_000
    frame = struct.pack(">HHIIIH", 0x8003, 1, 10 + len(packed), 1, 0, 0) + packed
    with pytest.raises(SpdyError, match="too many bytes"):
        list(FrameReader().feed(frame))


def test_a_control_frame_that_would_have_to_be_kept_for_long_is_refused_at_its_head() -> None:
    with pytest.raises(SpdyError, match="too many bytes"):
        list(FrameReader().feed(struct.pack(">HHI", 0x8003, 1, 0xFF_FFFF)))


def test_a_data_frame_is_passed_on_before_it_is_whole() -> None:
    reader = FrameReader()
    head = struct.pack(">II", 1, 1 << 24 | 0xFF_0000)
    assert list(reader.feed(head + b"first")) == [frames.Data(1, b"first")]
    assert list(reader.feed(b"second")) == [frames.Data(1, b"second")]
