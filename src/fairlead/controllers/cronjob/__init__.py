"""Jobs at given times.

times.py       which of its times a cron job has missed
turn.py        one reconcile: what is running, what is due, what is old enough to go
"""

from fairlead.controllers.cronjob.turn import CronJobs

__all__ = ["CronJobs"]
