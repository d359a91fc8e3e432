"""docs/real-nodes.md names commands and options that exist, and the fields that a node refuses."""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from fairlead.agent.device_plugins.manager import FOLDER
from fairlead.agent.pods.unsupported import refusal
from fairlead.cli.main import main
from fairlead.cli.node_root import SHOWN_ROOT
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "real-nodes.md").read_text()


@pytest.mark.parametrize("option", sorted(set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE))))
def test_every_option_of_the_table_is_one(option: str) -> None:
    said = CliRunner().invoke(main, ["node", "run", "--help"]).output
    assert option in said


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}]},
        {"somethingNew": "x"},
    ],
)
def test_what_is_not_there_yet_is_refused_by_name(spec: dict[str, object]) -> None:
    found = refusal({"spec": {"containers": [], **spec}})
    assert found is not None and found.reason == "UnsupportedField"
    leaf = re.findall(r"[a-zA-Z]+", str(spec))
    assert any(f".{name}" in found.message for name in leaf)


def test_the_plugin_of_the_example_finds_the_folder_of_a_node() -> None:
    plugin, _ = yaml.safe_load_all((TESTS.parent / "examples" / "device-plugin.yaml").read_text())
    spec = plugin["spec"]["template"]["spec"]
    (mounted,) = (each for each in spec["volumes"] if each["name"] == "device-plugins")
    root = SHOWN_ROOT.partition(";")[0]
    assert mounted["hostPath"]["path"] == f"{root}/{FOLDER}"


def test_a_plain_pod_is_taken() -> None:
    assert refusal({"spec": {"containers": [{"name": "c", "image": "i"}], "hostIPC": False}}) is None
