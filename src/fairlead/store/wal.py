"""Whether SQLite's write-ahead log is whole: SQLite takes a damaged frame for the end of the log, and says nothing.

After a crash that is right for the last transaction, which nobody was told of. Anywhere else acknowledged writes would
be lost without a word. Two witnesses tell the difference: the index beside the log (`-shm`), which counts the frames of
finished transactions for as long as the machine is up; and finished transactions behind the damage, for each is synced
before the next begins. The layouts are those of https://sqlite.org/fileformat2.html and walformat.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

_Sums: TypeAlias = tuple[int, int]

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
#: Which byte order the checksums of a log are reckoned in, by its first number.
_ORDERS = {0x377F0683: ">", 0x377F0682: "<"}
#: The header of the index comes twice; in it, the number of frames in this machine's order, and the salts of the log.
_INDEX_BYTES, _FRAMES_AT, _SALTS_AT = 48, 16, 32


def log_of(path: Path) -> Path:
    """The log of a database file."""
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    """Whether there is anything in the log."""
    log = log_of(path)
    return log.exists() and log.stat().st_size > _HEADER.size


def has_lost(path: Path) -> bool:
    """Whether SQLite would read less of the log than was committed. Nobody may have the database open."""
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
    """The last frame of each transaction of this log, and whether everything up to it is as it was written."""
    is_whole, number = True, 0
    while len(frame := log.read(_FRAME.size + page_bytes)) == _FRAME.size + page_bytes:
        number += 1
        _, pages_after, _, _, *told = _FRAME.unpack_from(frame)
        is_ours = frame[8:16] == salts  # else left over from before the log was begun anew
        if is_whole:
            sums = _sums(frame[_FRAME.size :], order, _sums(frame[:8], order, sums))
            is_whole = is_ours and sums == tuple(told)
        if is_ours and pages_after:
            yield number, is_whole


def _sums(data: bytes, order: str, sums: _Sums) -> _Sums:
    """The checksum of a log, continued."""
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for odd, even in zip(words, words, strict=True):
        one = (one + odd + two) & 0xFFFFFFFF
        two = (two + even + one) & 0xFFFFFFFF
    return one, two


def _promised(path: Path, salts: bytes) -> int:
    """How many frames of that log the index counts; 0 if it does not know."""
    try:
        index = path.with_name(path.name + "-shm").read_bytes()
    except FileNotFoundError:
        return 0
    header = index[:_INDEX_BYTES]
    if header != index[_INDEX_BYTES : 2 * _INDEX_BYTES] or header[_SALTS_AT : _SALTS_AT + 8] != salts:
        return 0
    frames: int = struct.unpack_from("=I", header, _FRAMES_AT)[0]
    return frames
