"""The versions of kubectl that a test runs with."""

from __future__ import annotations

import pytest

from tests.examples import each_time

#: The oldest and newest that we promise, the compatibility version, and the one before server-side changes of 1.34.
MINORS = ("1.30", "1.33", "1.36", "1.37")

#: Those between: one look at each.
OTHER_MINORS = ("1.31", "1.32", "1.34", "1.35")

#: What one of them gets wrong, another seldom does: each time the compatibility version, the rest in the slow run.
_EACH_TIME = "1.36"

every_kubectl = pytest.mark.parametrize("minor", each_time([_EACH_TIME], MINORS))
