"""The examples of docs/images.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.main import main
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "images.md").read_text()


def test_the_example_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"\)  # (.+)", example)


def test_a_root_file_system_is_loaded_as_the_page_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rootfs/bin").mkdir(parents=True)
    (tmp_path / "rootfs/bin/busybox").write_bytes(b"any program")
    (shell,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in shell.splitlines()[1:]:
        result = CliRunner().invoke(main, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
    assert "docker.io/library/tools:1" in result.stdout


@pytest.mark.parametrize("line", re.findall(r"^fairlead (.*)$", PAGE, re.MULTILINE))
def test_every_command_of_the_page_is_one(line: str) -> None:
    _, command, *_ = shlex.split(line, comments=True)
    assert CliRunner().invoke(main, ["images", command, "--help"]).exit_code == 0
