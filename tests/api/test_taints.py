"""Who tolerates which taint."""

from __future__ import annotations

import pytest

from fairlead.api import taints
from fairlead.api.taints import Taint, Toleration


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key=key, value=value, effect=effect)


def toleration(key: str = "", operator: str = "", value: str = "", effect: str = "") -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect)


@pytest.mark.parametrize(
    ("tolerating", "is_tolerated"),
    [
        (toleration("k", value="v"), True),
        (toleration("k", "Equal", "v", "NoSchedule"), True),
        (toleration("k", "Equal", "other"), False),
        (toleration("k", "Exists"), True),
        (toleration(operator="Exists"), True),
        (toleration("other", "Exists"), False),
        (toleration("k", "Exists", effect="NoExecute"), False),
        (toleration("k", "Gt", "v"), False),
    ],
)
def test_toleration_rules(tolerating: Toleration, is_tolerated: bool) -> None:
    assert taints.tolerates(tolerating, taint("k", "v")) is is_tolerated


def test_first_untolerated_taint_with_a_binding_effect() -> None:
    shy, gpu, down = taint("shy", effect="PreferNoSchedule"), taint("gpu"), taint("down", effect="NoExecute")
    assert taints.first_untolerated([shy, gpu, down], [toleration("gpu", "Exists")]) is down
    assert taints.first_untolerated([shy], []) is None


def test_taint_is_written_without_what_is_empty() -> None:
    assert taints.written(taint("k", "v")) == "k=v:NoSchedule"
    assert taints.written(taint("k")) == "k:NoSchedule"
    assert taints.written(taint("k", "v", "")) == "k=v"
