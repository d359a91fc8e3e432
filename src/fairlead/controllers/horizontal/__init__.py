"""HorizontalPodAutoscalers: how many replicas a workload gets for what its pods use.

samples.py     what the resource metrics API says of each pod
pod_groups.py  whose sample counts: ready, unready, missing, ignored; what each pod requests
replicas.py    how many replicas a metric proposes
behavior.py    how fast and how soon that may change: history, stabilization, policies, bounds
proposals.py   the metrics of one autoscaler together; custom_metrics.py: those that nobody serves
ambiguity.py   which autoscalers select the same pods
conditions.py  what the status says
turn.py        one look every 15 seconds
resting.py     when a simulation can do without: nothing has changed
"""

from fairlead.controllers.horizontal.turn import HorizontalPodAutoscalers

__all__ = ["HorizontalPodAutoscalers"]
