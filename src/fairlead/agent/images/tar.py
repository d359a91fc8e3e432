"""Reads tar archives of strangers, member by member, in bounded memory and linear time.

Python's `tarfile` keeps every member, and reads headers of any size into memory. This knows what container images are
made of: POSIX (pax) and GNU archives without sparse files. Whatever is not whole is refused.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.limits import PIECE, Limits

_BLOCK: Final = 512
_XATTR: Final = b"SCHILY.xattr."
_EARLIEST, _LATEST = -(2**31), 2**34  # seconds that file systems keep
_MOST_OWNER: Final = 2**32 - 1
_MOST_DEVICE: Final = 2**31 - 1


class Kind(enum.Enum):
    FILE = b"0"
    HARD_LINK = b"1"
    SYMBOLIC_LINK = b"2"
    CHARACTER_DEVICE = b"3"
    BLOCK_DEVICE = b"4"
    FOLDER = b"5"
    FIFO = b"6"


_KINDS: Final = {b"\0": Kind.FILE, b"7": Kind.FILE} | {kind.value: kind for kind in Kind}
_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL = b"L", b"K", b"x", b"g"


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Member(msgspec.Struct, frozen=True):
    #: As the archive has it: it may be absolute, or lead out.
    name: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    link: str
    device: tuple[int, int]
    xattrs: Mapping[str, bytes]


class TarReader:
    """Iterating gives the members; `pieces` is the data of the last one. Raises BadImage."""

    def __init__(self, source: Readable, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._unread = self._padding = 0
        self._entries = self._names = 0
        #: Of the next byte of the archive.
        self.position = 0

    def __iter__(self) -> Iterator[Member]:
        extended: dict[bytes, bytes] = {}
        while (header := self._next_header()) is not None:
            kind = header[156:157]
            size = _number(header[124:136], "size")
            if kind in (_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL):
                text = self._header_data(size)
                if kind == _EXTENDED:
                    extended |= _records(text)
                elif kind != _GLOBAL:  # those speak of no member in particular
                    extended[b"path" if kind == _LONG_NAME else b"linkpath"] = text.split(b"\0", 1)[0]
                continue
            member = _member(header, extended)
            self._count(member)
            self._unread, self._padding = member.size, -member.size % _BLOCK
            extended = {}
            yield member
        if extended:
            raise BadImage("the archive ends within a member")

    def pieces(self) -> Iterator[bytes]:
        """The data of the current member."""
        while self._unread:
            yield self._take(min(self._unread, PIECE))

    def drain(self) -> None:
        """Read what follows the end of the archive, which belongs to its digest."""
        while self._source.read(PIECE):
            pass

    def _take(self, size: int) -> bytes:
        piece = self._exactly(size)
        self._unread -= size
        return piece

    def _next_header(self) -> bytes | None:
        for _ in self.pieces():
            pass
        self._exactly(self._padding)
        self._padding = 0
        header = self._read(_BLOCK)
        if not header or header == bytes(_BLOCK):
            return None
        if len(header) < _BLOCK:
            raise BadImage("the archive is cut off within a header")
        _check_sum(header)
        return header

    def _header_data(self, size: int) -> bytes:
        if size > self._limits.header_bytes:
            raise BadImage(f"a header of the archive has {size} bytes; at most {self._limits.header_bytes} are taken")
        data = self._exactly(size)
        self._exactly(-size % _BLOCK)
        self._count_entry(size)
        return data

    def _exactly(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise BadImage("the archive is cut off within a member")
        return data

    def _read(self, size: int) -> bytes:
        """As many bytes, or fewer at the end."""
        data = self._source.read(size)
        if len(data) < size:
            whole = bytearray(data)  # a stranger's gzip may come byte by byte
            while len(whole) < size and (more := self._source.read(size - len(whole))):
                whole += more
            data = bytes(whole)
        self.position += len(data)
        return data

    def _count(self, member: Member) -> None:
        self._count_entry(len(member.name) + len(member.link))
        if max(len(os.fsencode(member.name)), len(os.fsencode(member.link))) > self._limits.path_bytes:
            raise BadImage(f"a name in the archive has more than {self._limits.path_bytes} bytes")

    def _count_entry(self, size: int) -> None:
        self._entries += 1
        self._names += size
        if self._entries > self._limits.entries:
            raise BadImage(f"the archive has more than {self._limits.entries} members")
        if self._names > self._limits.name_bytes:
            raise BadImage(f"the names in the archive have more than {self._limits.name_bytes} bytes")


def _member(header: bytes, extended: Mapping[bytes, bytes]) -> Member:
    kind = _KINDS.get(header[156:157])
    if kind is None or any(key.startswith(b"GNU.sparse.") for key in extended):
        what = "is a sparse file" if kind else f"has the type {header[156:157]!r}"
        raise BadImage(f"{_text(_name(header, extended))} in the archive {what}, which is not understood here")
    name = _name(header, extended)
    if kind is Kind.FILE and name.endswith(b"/"):
        kind = Kind.FOLDER  # as archives before POSIX say it
    number = _Numbers(header, extended)
    is_device = kind in (Kind.CHARACTER_DEVICE, Kind.BLOCK_DEVICE)
    device = (_device(header[329:337], "devmajor"), _device(header[337:345], "devminor")) if is_device else (0, 0)
    link = extended.get(b"linkpath", _string(header[157:257]))
    xattrs = {key[len(_XATTR) :]: value for key, value in extended.items() if key.startswith(_XATTR)}
    if any(b"\0" in text for text in (name, link, *xattrs)):
        raise BadImage(f"the archive is damaged: a name of {_string(name)[:40]!r} has a zero in it")
    return Member(
        name=_text(name),
        kind=kind,
        mode=_number(header[100:108], "mode") & 0o7777,
        uid=number(b"uid", slice(108, 116), _MOST_OWNER),
        gid=number(b"gid", slice(116, 124), _MOST_OWNER),
        size=number(b"size", slice(124, 136), 2**62) if kind is Kind.FILE else 0,
        mtime_ns=_mtime_ns(extended.get(b"mtime"), header),
        link=_text(link),
        device=device,
        xattrs={_text(key): value for key, value in xattrs.items()},
    )


def _name(header: bytes, extended: Mapping[bytes, bytes]) -> bytes:
    if b"path" in extended:
        return extended[b"path"]
    name, prefix = _string(header[:100]), b""
    if header[257:263] == b"ustar\0":  # GNU's old form has other things in place of a prefix
        prefix = _string(header[345:500])
    return prefix + b"/" + name if prefix else name


class _Numbers:
    """A field of the extended header, or that of the header."""

    def __init__(self, header: bytes, extended: Mapping[bytes, bytes]) -> None:
        self._header, self._extended = header, extended

    def __call__(self, field: bytes, place: slice, most: int) -> int:
        text = self._extended.get(field)
        if text is None:
            found = _number(self._header[place], field.decode())
        elif text.isdigit() and len(text) <= 20:
            found = int(text)
        else:
            raise BadImage(f"the archive is damaged: its {field.decode()} {text[:40]!r} is no number")
        if found > most:
            raise BadImage(f"the archive is damaged: its {field.decode()} {found} is too large")
        return found


def _number(field: bytes, what: str) -> int:
    if field[0] & 0x80:  # GNU's way to write what octal digits have no room for
        found = int.from_bytes(field, "big", signed=True) if field[0] == 0xFF else int.from_bytes(field[1:], "big")
        found += (field[0] & 0x7F) << (8 * (len(field) - 1)) if field[0] != 0xFF else 0
    else:
        digits = field.strip(b" \0")
        if digits.translate(None, b"01234567"):
            raise BadImage(f"the archive is damaged: its {what} {digits!r} is no octal number")
        found = int(digits or b"0", 8)
    if found < 0 and what != "mtime":
        raise BadImage(f"the archive is damaged: its {what} is negative")
    return found


def _device(field: bytes, what: str) -> int:
    found = _number(field, what)
    if found > _MOST_DEVICE:
        raise BadImage(f"the archive is damaged: its {what} {found} is too large")
    return found


def _mtime_ns(text: bytes | None, header: bytes) -> int:
    if text is None:
        return _bounded(_number(header[136:148], "mtime")) * 10**9
    whole, _, fraction = text.partition(b".")
    if not whole.removeprefix(b"-").isdigit() or len(whole) > 20 or (fraction and not fraction.isdigit()):
        raise BadImage(f"the archive is damaged: its mtime {text[:40]!r} is no time")
    nanos = int(fraction[:9].ljust(9, b"0"))
    return _bounded(int(whole)) * 10**9 + (-nanos if whole.startswith(b"-") else nanos)


def _bounded(seconds: int) -> int:
    return max(_EARLIEST, min(seconds, _LATEST))


def _records(text: bytes) -> dict[bytes, bytes]:
    """The fields of an extended header: each begins with its own length in decimal."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(text):
        space = text.find(b" ", at, at + 20)
        digits = text[at:space]
        end = at + int(digits) if space > at and digits.isdigit() else 0
        if not space < end <= len(text) or text[end - 1 : end] != b"\n":
            raise BadImage("the archive is damaged: an extended header has a wrong length")
        key, equals, value = text[space + 1 : end - 1].partition(b"=")
        if not equals:
            raise BadImage("the archive is damaged: an extended header has a field without a value")
        found[key] = value
        at = end
    return found


def _check_sum(header: bytes) -> None:
    stated = _number(header[148:156], "checksum")
    if sum(header[:148]) + sum(header[156:]) + 8 * 0x20 != stated:
        raise BadImage("the archive is damaged: the checksum of a header is wrong")


def _string(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


_text: Final[Callable[[bytes], str]] = os.fsdecode
