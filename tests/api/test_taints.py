"""Who tolerates which taint."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fairlead.api import taints


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Toleration:
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        (Toleration("k", value="v"), True),
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "other"), False),
        (Toleration("k", "Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "Exists", effect="NoExecute"), False),
        (Toleration("k", "Gt", "v"), False),
    ],
)
def test_toleration_rules(toleration: Toleration, is_tolerated: bool) -> None:
    assert taints.tolerates(toleration, Taint("k", "v")) is is_tolerated


def test_first_untolerated_taint_with_a_binding_effect() -> None:
    shy, gpu, down = Taint("shy", effect="PreferNoSchedule"), Taint("gpu"), Taint("down", effect="NoExecute")
    assert taints.first_untolerated([shy, gpu, down], [Toleration("gpu", "Exists")]) is down
    assert taints.first_untolerated([shy], []) is None


def test_taint_is_written_without_what_is_empty() -> None:
    assert taints.written(Taint("k", "v")) == "k=v:NoSchedule"
    assert taints.written(Taint("k")) == "k:NoSchedule"
    assert taints.written(Taint("k", "v", "")) == "k=v"
