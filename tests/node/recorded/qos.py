"""The class of a pod, and how safe its containers are from the kernel: the kubelet's own answers, row by row."""

from __future__ import annotations

from fairlead.api.qos import qos_class
from fairlead.api.quantity import units
from fairlead.node.oom import oom_score_adjustments
from tests.node.golden import Row, rows


@rows("qos")
def test_a_pod_has_the_class_that_a_kubelet_gives_it(row: Row) -> None:
    """S0-117 to S0-121."""
    assert {"qosClass": qos_class(row["pod"]["spec"])} == row["expect"]


@rows("oom_score_adj")
def test_a_container_starts_with_the_oom_score_adj_of_a_kubelet(row: Row) -> None:
    """S4-13 to S4-17, S4-22, S4-23, S3-86."""
    assert oom_score_adjustments(row["pod"], units(row["memoryCapacity"])) == row["expect"]
