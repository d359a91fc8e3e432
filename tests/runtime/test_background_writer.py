"""What is for a slow disk: nobody waits for it, and what is lost is told. Files that rotate."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead.runtime.background_writer import BackgroundWriter
from fairlead.runtime.rotating_file import RotatingFile

MEGABYTE = 1 << 20


def test_lines_arrive_in_order_and_all_of_them_at_the_end() -> None:
    written: list[bytes] = []

    async def main() -> None:
        writer = BackgroundWriter("log", written.extend, max_items=5000, max_bytes=MEGABYTE)
        for number in range(3000):
            assert writer.put(b"%d\n" % number, 2)
        assert await writer.close()

    asyncio.run(main())
    assert written == [b"%d\n" % number for number in range(3000)]


@pytest.mark.parametrize(("lines", "size"), [(3, MEGABYTE), (1000, 6)])
def test_a_disk_that_stands_still_holds_up_nobody(lines: int, size: int, caplog: pytest.LogCaptureFixture) -> None:
    goes_on, written = threading.Event(), list[bytes]()

    def write(batch: Sequence[bytes]) -> None:
        goes_on.wait()
        written.extend(batch)

    async def main() -> None:
        writer = BackgroundWriter("log", write, max_items=lines, max_bytes=size)
        assert [writer.put(b"%d\n" % number, 2) for number in range(5)] == [True, True, True, False, False]
        assert writer.dropped == 2
        goes_on.set()
        await writer.close()

    asyncio.run(main())
    assert written == [b"0\n", b"1\n", b"2\n"]
    assert "log: there is no room for what is not written yet: 1 lines lost so far" in caplog.text


def test_a_full_disk_loses_lines_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def write(_: Sequence[bytes]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main() -> None:
        writer = BackgroundWriter("log", write, max_items=10, max_bytes=MEGABYTE)
        writer.put(b"x\n", 2)
        await writer.close()
        assert (writer.failed, writer.dropped) == (1, 0)

    asyncio.run(main())
    assert "log: No space left on device: 1 lines lost so far" in caplog.text


def rotating(path: Path, *, megabytes: int = 1, backups: int = 0, days: int = 0) -> RotatingFile:
    return RotatingFile(path, max_megabytes=megabytes, max_backups=backups, max_age_days=days)


def test_a_full_file_is_put_aside(tmp_path: Path) -> None:
    path, line = tmp_path / "audit.log", b"x" * (MEGABYTE // 2 - 1) + b"\n"
    file = rotating(path)
    file.write(line * 3)
    file.write(b"last\n")
    file.close()
    (aside,) = (found for found in tmp_path.iterdir() if found != path)
    assert re.fullmatch(r"audit-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.log", aside.name)
    assert (aside.stat().st_size, path.read_bytes()) == (MEGABYTE, line + b"last\n")
    assert aside.stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600


def test_what_was_there_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for text in (b"a\n", b"b\n"):
        file = rotating(path, megabytes=0)
        file.write(text)
        file.close()
    assert path.read_bytes() == b"a\nb\n"


def test_old_files_go_by_number_and_age(tmp_path: Path) -> None:
    old = [f"audit-2020-01-0{day}T00-00-00.000.log" for day in range(1, 5)]
    others = ["audit-notes.log", "other-2020-01-01T00-00-00.000.log"]
    for name in [*old, *others]:
        (tmp_path / name).touch()
    rotating(tmp_path / "audit.log", backups=2).close()
    assert {found.name for found in tmp_path.iterdir()} == {"audit.log", *old[2:], *others}
    rotating(tmp_path / "audit.log", days=30).close()
    assert {found.name for found in tmp_path.iterdir()} == {"audit.log", *others}


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    file = rotating(path)
    file.write(b"before\n")
    plain_write, room = os.write, [9]

    def write(fd: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = plain_write(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        file.write(b"whole\nhalf of it\n")
    monkeypatch.undo()
    file.write(b"after\n")
    file.close()
    assert path.read_bytes() == b"before\nwhole\nafter\n"
