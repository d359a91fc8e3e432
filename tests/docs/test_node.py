"""The examples of docs/node.md print what the page says, and every module that it names is there."""

from __future__ import annotations

import re

import pytest
import yaml

from fairlead.cli.node import plan
from fairlead.cli.simulate import simulate
from fairlead.cli.up import up
from fairlead.sim.node_settings import NodeConfigurations
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


def test_the_node_gives_away_what_it_says() -> None:
    (example,) = re.findall(r"```yaml\n# allocatable: (.*?)\n(.*?)```", PAGE, re.DOTALL)
    shown, manifest = example
    allocatable = NodeConfigurations().completed(yaml.safe_load(manifest))["status"]["allocatable"]
    stated = dict(pair.split("=") for pair in shown.split())
    assert {name: allocatable[name] for name in stated} == stated


@pytest.mark.parametrize("flag", sorted(set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) - {"--pod", "--kubeconfig"}))
def test_every_flag_that_is_named_is_one_of_these_commands(flag: str) -> None:
    known = {option for command in (up, simulate, plan) for parameter in command.params for option in parameter.opts}
    assert flag in known or flag.startswith("--experimental-")
