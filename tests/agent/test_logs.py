"""The log of a container: which part of it is shown, and that nothing is lost while it grows and is rotated."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.kubelet_api.log_files import READ_BYTES, LogFiles
from fairlead.agent.kubelet_api.log_lines import MOST_LINE_BYTES, LineFormatter, Shown
from tests.agent.local_pods import LogWriter

LOG = b"""\
2026-01-01T00:00:01.000000000Z stdout F one
2026-01-01T00:00:02.000000000Z stderr F oops
2026-01-01T00:00:03.000000000Z stdout P tw
2026-01-01T00:00:03.500000000Z stdout F o
nonsense
2026-01-01T00:00:04.000000000+00:00 stdout F
2026-01-01T00:00:05.000000000Z stdout F  spaced  out
"""


def shown(log: bytes, *sizes: int, **wanted: object) -> bytes:
    formatter, at, found = LineFormatter(Shown(**wanted)), 0, b""  # type: ignore[arg-type]
    for size in (*sizes, len(log)):
        found += formatter.format(log[at : at + size])
        at += size
    return found


def test_lines_are_shown_without_their_head_and_parts_are_joined() -> None:
    assert shown(LOG) == b"one\noops\ntwo\n\n spaced  out\n"


def test_one_stream_alone() -> None:
    assert shown(LOG, stream="stderr") == b"oops\n"
    assert shown(LOG, stream="stdout") == b"one\ntwo\n\n spaced  out\n"


def test_a_line_of_parts_has_one_timestamp() -> None:
    lines = shown(LOG, has_timestamps=True).splitlines()
    assert lines[0] == b"2026-01-01T00:00:01.000000000Z one"
    assert lines[2] == b"2026-01-01T00:00:03.000000000Z two"
    assert len(lines) == 5


def test_lines_from_some_time_on() -> None:
    since = datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC)
    assert shown(LOG, since=since) == b"\n spaced  out\n"


@given(st.lists(st.integers(0, 60), max_size=20), st.booleans())
def test_it_does_not_matter_how_the_log_is_cut(sizes: list[int], has_timestamps: bool) -> None:
    assert shown(LOG, *sizes, has_timestamps=has_timestamps) == shown(LOG, has_timestamps=has_timestamps)


@given(st.binary(max_size=300), st.lists(st.integers(0, 60), max_size=10))
def test_what_is_no_log_shows_nothing_wrong(log: bytes, sizes: list[int]) -> None:
    assert shown(log, *sizes) == shown(log)


def test_a_line_without_an_end_is_not_kept() -> None:
    formatter = LineFormatter(Shown())
    for _ in range(2 * MOST_LINE_BYTES // READ_BYTES):
        assert formatter.format(b"x" * READ_BYTES) == b""
    assert formatter.format(b"rest\n" + LOG) == shown(LOG)


# --- files ----------------------------------------------------------------------------------------------------------


def read_all(files: LogFiles) -> bytes:
    found = b""
    while data := files.read():
        found += data
    return found


@pytest.mark.parametrize("lines", [0, 1, 2, 9, 10, 11, 10**9])
@pytest.mark.parametrize("length", [5, READ_BYTES // 4, READ_BYTES])
def test_the_last_lines(tmp_path: Path, lines: int, length: int) -> None:
    written = [f"{number:>{length}}\n".encode() for number in range(10)]
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(written))
    files = LogFiles(path)
    files.skip_to_last(lines)
    assert read_all(files) == b"".join(written[-lines:] if lines else [])
    files.close()


def test_a_new_file_is_gone_over_to_when_the_old_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    files = LogFiles(path)
    assert files.read() == b"a\n"
    path.rename(tmp_path / "0.log.20260101-000001")
    with (tmp_path / "0.log.20260101-000001").open("ab") as old:
        old.write(b"b\n")  # the writer has not opened the new one yet
    assert read_all(files) == b"b\n"
    with (tmp_path / "0.log.20260101-000001").open("ab") as old:
        old.write(b"c\n")
    path.write_bytes(b"d\n")
    assert read_all(files) == b"c\nd\n"
    assert files.read() == b""
    files.close()


def test_who_was_slow_reads_every_file_that_came_between(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    files = LogFiles(path)
    for number, text in enumerate((b"b\n", b"c\n", b"d\n")):
        path.rename(tmp_path / f"0.log.20260101-00000{number}")
        path.write_bytes(text)
    assert read_all(files) == b"a\nb\nc\nd\n"
    files.close()


def _compress(file: Path) -> None:
    """As the node does it."""
    with gzip.open(f"{file}.gz", "wb") as target:
        target.write(file.read_bytes())
    file.unlink()


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_who_was_slow_reads_files_that_are_compressed_by_now(tmp_path: Path, removed: int) -> None:
    """Only what was removed is lost, and nothing is read twice."""
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    files = LogFiles(path)
    for number, text in enumerate((b"b\n", b"c\n", b"d\n")):
        rotated = tmp_path / f"0.log.20260101-00000{number}"
        path.rename(rotated)
        if number < 2:
            _compress(rotated)
        path.write_bytes(text)
    for number in range(removed):
        (tmp_path / f"0.log.20260101-00000{number}.gz").unlink()
    assert read_all(files) == b"a\n" + b"b\nc\nd\n"[2 * max(removed - 1, 0) :]
    files.close()


def test_a_compressed_file_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    files = LogFiles(path)
    long = b"".join(b"%d\n" % number for number in range(READ_BYTES // 4))
    for number, text in enumerate((long, b"c\n")):
        path.rename(tmp_path / f"0.log.20260101-00000{number}")
        path.write_bytes(text)
    _compress(tmp_path / "0.log.20260101-000001")
    found = files.read() + files.read()
    (tmp_path / "0.log.20260101-000001.gz").unlink()
    assert found + read_all(files) == b"a\n" + long + b"c\n"
    files.close()


@given(st.lists(st.sampled_from(["write", "rotate", "compress", "read"]), max_size=40))
def test_every_line_is_read_once_whatever_comes_between(steps: list[str]) -> None:
    with TemporaryDirectory() as folder:
        log = LogWriter(Path(folder) / "0.log")
        files, read, written = LogFiles(log.path), b"", 0
        for step in steps:
            if step == "write":
                log.write("stdout", b"%d" % written)
                written += 1
            elif step == "rotate":
                log.rotate()
            elif step == "compress":
                for file in sorted(Path(folder).glob("0.log.*"))[:-1]:
                    if file.suffix != ".gz":
                        _compress(file)
            else:
                read += files.read()
        read += read_all(files)
        files.close()
    assert shown(read) == b"".join(b"%d\n" % number for number in range(written))
