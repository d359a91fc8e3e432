"""The examples of docs/testing.md run as they stand, its tables are complete, and the notebooks show what they say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from docs import notebooks
from fairlead.simulation.options import ClusterOptions
from fairlead.simulation.tables import EventRow, PodRow
from tests.conftest import TESTS

ROOT = TESTS.parent
PAGE = (ROOT / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("example", [text for text in EXAMPLES if "def test_" in text])
def test_every_test_of_the_page_passes(pytester: pytest.Pytester, example: str) -> None:
    (pytester.path / "examples").symlink_to(ROOT / "examples")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", pytester.makepyfile(example))
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("example", [text for text in EXAMPLES if "def test_" not in text])
def test_every_program_of_the_page_runs(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(example, "docs/testing.md", "exec"), {})


def test_the_page_knows_every_option_and_every_column() -> None:
    assert [
        name for name in ClusterOptions.__annotations__ if f"`{name}=" not in PAGE and f", `{name}=" not in PAGE
    ] == []
    columns = [field.name for row in (PodRow, EventRow) for field in msgspec.structs.fields(row)]
    assert [name for name in columns if f"`{name}`" not in PAGE] == []


@pytest.mark.slow
def test_the_operator_of_the_examples_passes_its_tests(pytester: pytest.Pytester) -> None:
    shutil.copytree(ROOT / "examples" / "operator_test", pytester.path / "operator_test")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=300)
    result.assert_outcomes(passed=3)


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(notebooks.NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.name)
def test_a_notebook_shows_what_its_cells_give(file: Path) -> None:
    assert file.read_text() == notebooks.rendered(file), "python -m docs.notebooks"
