"""Jobs: pods that run to their end, so many at a time and so many in all.

turn.py        one reconcile: who is there, is it over, who is missing
pods.py        making and removing the pods of a job
tally.py       counting each pod exactly once, however often the controller restarts
verdict.py     when a job has failed or succeeded
failures.py    which pods have failed, and what their job thinks of it
indexes.py     jobs whose pods are numbered
backoff.py     how long to wait after failures
orphans.py     pods whose job is gone or over
"""

from fairlead.controllers.job.orphans import OrphanedJobPods
from fairlead.controllers.job.turn import Jobs

__all__ = ["Jobs", "OrphanedJobPods"]
