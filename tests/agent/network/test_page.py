"""The example of docs/network.md prints what the page says, and what the page names is there."""

from __future__ import annotations

import re

import pytest

from fairlead.agent.network import routes
from fairlead.agent.network.dns.answers import LARGEST_DATAGRAM
from fairlead.agent.network.dns.records import MOST_RECORDS
from fairlead.agent.network.nftables.base import IPV6_TABLE
from fairlead.agent.network.nftables.table import TABLE
from fairlead.agent.network.settings import SUBNET_ANNOTATION, NetworkSettings
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "network.md").read_text()


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.split() == " ".join(re.findall(r"^# (.*)$", example, re.MULTILINE)).split()


@pytest.mark.parametrize("path", re.findall(r"`((?:src|tests)/[a-z_/]+\.py)`", PAGE))
def test_every_module_that_is_named_is_there(path: str) -> None:
    assert (TESTS.parent / path).exists()


def test_the_names_and_figures_are_those_of_the_code() -> None:
    settings = NetworkSettings(node_name="any", root=TESTS)
    for named in (
        settings.bridge,
        str(settings.pod_network),
        f"`/{settings.node_prefix}`",
        str(settings.dns_address),
        TABLE,
        IPV6_TABLE,
        SUBNET_ANNOTATION,
        f"protocol {routes.PROTOCOL}",
        f"{MOST_RECORDS} records",
        f"{LARGEST_DATAGRAM:,} bytes",
    ):
        assert named in PAGE
