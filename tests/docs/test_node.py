"""The examples of docs/node.md print what the page says, and every module that it names is there."""

from __future__ import annotations

import re

import pytest

from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "node.md").read_text()
NODE = TESTS.parent / "src" / "fairlead" / "node"


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    exec(example, {})
    assert capsys.readouterr().out.split() == re.findall(r"# (\w+):", example)


def test_the_eviction_is_told_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    exec(example, {})
    (text,) = re.findall(r"# (.+)", example)
    assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE))))
def test_every_module_that_is_named_is_there(name: str) -> None:
    assert (TESTS.parent / name).exists() or list(NODE.rglob(name.rstrip("/")))
