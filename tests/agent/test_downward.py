"""What a container is told of its own resources."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.agent.pods.downward import DownwardApi
from fairlead.api.quantity import parse

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}}
NODE = {"cpu": "3500m", "memory": "2Gi", "ephemeral-storage": "10Gi", "hugepages-2Mi": "64Mi"}


@pytest.mark.parametrize(
    ("resource", "resources", "told"),
    [
        ("limits.cpu", {"limits": {"cpu": "500m"}}, "500"),
        ("limits.cpu", {}, "3500"),
        ("limits.cpu", {"requests": {"cpu": "1"}}, "3500"),
        ("limits.cpu", {"limits": {"cpu": "0"}}, "3500"),
        ("limits.memory", {"limits": {"cpu": "1"}}, "2147483648000"),
        ("limits.ephemeral-storage", {}, "10737418240000"),
        ("limits.hugepages-2Mi", {}, "0"),
        ("requests.cpu", {"requests": {"cpu": "250m"}}, "250"),
        ("requests.cpu", {}, "0"),
    ],
)
def test_a_missing_limit_is_what_the_node_gives_away_and_a_missing_request_is_none(
    resource: str, resources: dict[str, Any], told: str
) -> None:
    """S0-122: nothing of it is in the pod's spec."""
    api = DownwardApi(POD, "node-1", "10.0.0.1", "10.0.0.2", {name: parse(text) for name, text in NODE.items()})
    assert api.resource({"resource": resource, "divisor": "1m"}, {"name": "c", "resources": resources}) == told
