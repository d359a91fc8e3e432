"""The quality of service class of pods (S0-118 .. S0-121)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class

FULL = {"cpu": "1", "memory": "1Gi"}


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, BEST_EFFORT),
        ({"containers": [container(FULL, FULL)]}, GUARANTEED),
        ({"containers": [container({"cpu": "1000m", "memory": "1024Mi"}, FULL)]}, GUARANTEED),
        ({"containers": [container({"cpu": "500m", "memory": "1Gi"}, FULL)]}, BURSTABLE),
        ({"containers": [container({"cpu": "1"}, {"cpu": "1"})]}, BURSTABLE),
        ({"containers": [container(FULL, FULL), container()]}, BURSTABLE),
        ({"containers": [container({"cpu": "0"}, {"cpu": "0"})]}, BEST_EFFORT),
        ({"containers": [container({"example.com/gpu": "1"}, {"example.com/gpu": "1"})]}, BEST_EFFORT),
        ({"containers": [container(FULL, FULL)], "initContainers": [container()]}, BURSTABLE),
        ({"containers": [container()], "initContainers": [container({"cpu": "1"})]}, BURSTABLE),
        ({"containers": [container()], "resources": {"requests": FULL, "limits": FULL}}, GUARANTEED),
        ({"containers": [container(FULL, FULL)], "resources": {"requests": {"cpu": "1"}}}, BURSTABLE),
    ],
)
def test_class_follows_from_requests_and_limits_of_all_containers(spec: dict[str, Any], expected: str) -> None:
    assert qos_class(spec) == expected
