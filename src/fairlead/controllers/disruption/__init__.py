"""How many pods may be disturbed at once.

budget.py    the status of a PodDisruptionBudget
scale.py     how many pods the owners of some pods want
stale.py     announced disruptions that never came
"""

from fairlead.controllers.disruption.budget import DisruptionBudgets
from fairlead.controllers.disruption.stale import StaleDisruptions

__all__ = ["DisruptionBudgets", "StaleDisruptions"]
