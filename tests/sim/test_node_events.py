"""How much the nodes of a fleet tell, however many there are."""

from __future__ import annotations

from fairlead.client.events import SPAM_BURST
from fairlead.sim.node_events import WarningLimits


def test_a_node_warns_as_often_as_a_recorder_would_let_it_and_then_once_in_five_minutes() -> None:
    limits = WarningLimits(0.0)
    assert sum(limits.may_warn(float(second)) for second in range(200)) == SPAM_BURST
    assert sum(limits.may_warn(float(second)) for second in range(200, 3200)) == 10


def test_a_node_tells_of_the_kills_of_all_its_pods_and_not_of_each_for_ever() -> None:
    limits = WarningLimits(0.0)
    assert sum(limits.may_tell_kill(0.0) for _ in range(500)) == 4 * SPAM_BURST
    assert sum(limits.may_tell_kill(float(second)) for second in range(1, 1201)) == 100
