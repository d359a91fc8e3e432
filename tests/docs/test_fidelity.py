"""docs/fidelity.md: its workload is one, its options exist, and every workload of the package has a row."""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.main import main
from fairlead.verify.packaged import names
from fairlead.verify.workload import Size, workload
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "fidelity.md").read_text()


def test_the_workload_of_the_page_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = workload(list(yaml.safe_load_all(text)), "page")
    assert (found.name, found.size, len(found.pods)) == ("mine", Size(), 1)


@pytest.mark.parametrize("option", sorted(set(re.findall(r"(?<!\w)(--?[a-z]+)\b(?=[ `])", PAGE)) - {"-9"}))
def test_its_options_are_those_of_the_command(option: str) -> None:
    said = CliRunner().invoke(main, ["verify", "--help"]).output
    assert option in said


def test_every_workload_of_the_package_has_a_row() -> None:
    assert re.findall(r"^\| ([a-z-]+) \|", PAGE, re.MULTILINE)[-len(names()) :] == list(names())
