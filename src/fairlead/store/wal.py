"""Whether SQLite's write-ahead log is complete: SQLite takes a damaged frame for the end of the log, without an error.

After a crash that is right for the last transaction, which was not acknowledged. Anywhere else it would lose
acknowledged writes silently. Two things tell the difference: the index beside the log (`-shm`), which counts the frames
of finished transactions until the machine restarts; and finished transactions after the damage, because each is synced
before the next begins. The layouts are those of https://sqlite.org/fileformat2.html and walformat.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

_Sums: TypeAlias = tuple[int, int]

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
#: The byte order of a log's checksums, by its magic number.
_ORDERS = {0x377F0683: ">", 0x377F0682: "<"}
#: The index begins with two copies of its header, which has the number of frames (native order) and the log's salts.
_INDEX_BYTES, _FRAMES_AT, _SALTS_AT = 48, 16, 32


def log_of(path: Path) -> Path:
    """The log of a database file."""
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    """Whether there is anything in the log."""
    log = log_of(path)
    return log.exists() and log.stat().st_size > _HEADER.size


def has_lost(path: Path) -> bool:
    """Whether SQLite would read less of the log than was committed. The database must not be open."""
    if not has_log(path):
        return False
    with log_of(path).open("rb") as log:
        head = log.read(_HEADER.size)
        magic, _, page_bytes, _, _, _, first, second = _HEADER.unpack(head)
        order = _ORDERS.get(magic)
        if order is None or _sums(head[:24], order, (0, 0)) != (first, second):
            return True
        readable, behind = 0, 0
        for end, is_whole in _transactions(log, page_bytes, head[16:24], order, (first, second)):
            if is_whole:
                readable = end
            else:
                behind += 1
    return behind > 1 or _promised(path, head[16:24]) > readable


def _transactions(log: BinaryIO, page_bytes: int, salts: bytes, order: str, sums: _Sums) -> Iterator[tuple[int, bool]]:
    """The last frame of each transaction of this log, and whether all frames up to it are intact."""
    is_whole, number = True, 0
    while len(frame := log.read(_FRAME.size + page_bytes)) == _FRAME.size + page_bytes:
        number += 1
        _, pages_after, _, _, *checksums = _FRAME.unpack_from(frame)
        is_ours = frame[8:16] == salts  # else it is left over from before the last checkpoint
        if is_whole:
            sums = _sums(frame[_FRAME.size :], order, _sums(frame[:8], order, sums))
            is_whole = is_ours and sums == tuple(checksums)
        if is_ours and pages_after:
            yield number, is_whole


def _sums(data: bytes, order: str, sums: _Sums) -> _Sums:
    """The checksum of a log, continued."""
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for odd, even in zip(words, words, strict=True):
        first = (first + odd + second) & 0xFFFFFFFF
        second = (second + even + first) & 0xFFFFFFFF
    return first, second


def _promised(path: Path, salts: bytes) -> int:
    """How many frames of that log the index counts; 0 if there is no valid index."""
    try:
        index = path.with_name(path.name + "-shm").read_bytes()
    except FileNotFoundError:
        return 0
    header = index[:_INDEX_BYTES]
    if header != index[_INDEX_BYTES : 2 * _INDEX_BYTES] or header[_SALTS_AT : _SALTS_AT + 8] != salts:
        return 0
    frames: int = struct.unpack_from("=I", header, _FRAMES_AT)[0]
    return frames
