"""Cron schedules, as github.com/robfig/cron/v3 has them: read once, for who checks one and for who waits for one.

parsing.py      what a text means, or what is wrong with it
schedules.py    when a schedule fires
"""

from fairlead.api.cron.parsing import ScheduleError, parse, time_zone
from fairlead.api.cron.schedules import EARLIEST, Schedule

__all__ = ["EARLIEST", "Schedule", "ScheduleError", "parse", "time_zone"]
