"""The examples do what the programs of the documents did. They are compiled by this machine's compiler."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from fairlead.agent.images.store import ImageStore
from fairlead.cli.main import main

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt install gcc libc6-dev")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageStore]:
    root = tmp_path_factory.mktemp("root")
    built = CliRunner().invoke(main, ["images", "build-examples", "--root", str(root)])
    assert built.exit_code == 0, built.output
    yield ImageStore(root)


def program(store: ImageStore, name: str) -> Path:
    image = store.find(name)
    assert image is not None
    assert image.config.entrypoint is not None
    return Path(f"{image.layers[0]}{image.config.entrypoint[0]}")


@needs_compiler
def test_simmemleak_uses_ten_mebibytes_more_each_second(store: ImageStore) -> None:
    leaking = subprocess.Popen([program(store, "saadali/simmemleak")], stdout=subprocess.PIPE, text=True)
    try:
        assert leaking.stdout is not None
        assert [leaking.stdout.readline() for _ in range(3)] == ["10 MiB\n", "20 MiB\n", "30 MiB\n"]
        status = Path(f"/proc/{leaking.pid}/status").read_text()
        (resident_kib,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
        assert 30 * 1024 <= int(resident_kib) < 36 * 1024
        leaking.terminate()
        assert leaking.wait(5) == 128 + 15
    finally:
        leaking.kill()


@needs_compiler
def test_simmemleak_needs_no_library_of_its_image(store: ImageStore) -> None:
    assert b"/ld-linux" not in program(store, "saadali/simmemleak").read_bytes()


@needs_compiler
def test_serve_hostname_answers_with_its_name(store: ImageStore) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = subprocess.Popen([program(store, "gcr.io/google_containers/serve_hostname"), str(port)])
    try:
        for _ in range(3):
            assert _asked(f"http://127.0.0.1:{port}", serving) == socket.gethostname()
        serving.terminate()
        assert serving.wait(5) == 128 + 15
    finally:
        serving.kill()


def _asked(url: str, serving: subprocess.Popen[bytes]) -> str:
    """The answer, as soon as it listens."""
    while serving.poll() is None:
        try:
            with urlopen(url, timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            continue
    raise AssertionError("it has ended")


def test_without_a_compiler_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    refused = CliRunner().invoke(main, ["images", "build-examples", "--root", str(tmp_path)])
    assert refused.exit_code == 1
    assert "apt install gcc libc6-dev" in refused.stderr


@needs_compiler
def test_the_same_program_is_the_same_image(store: ImageStore, tmp_path: Path) -> None:
    CliRunner().invoke(main, ["images", "build-examples", "--root", str(tmp_path)])
    assert [image.id for image in ImageStore(tmp_path).list()] == [image.id for image in store.list()]
