"""`/metrics/probes`: what the probes of the pods here came to, and how long it took to be told that all is well.

A pod that has gone takes its series along. Sources: pkg/kubelet/prober/{prober_manager,worker}.go (1.36).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from fairlead.api.meta import ObjectMeta
from fairlead.runtime.metrics import COUNTER, DEFAULT_BOUNDS, HISTOGRAM, Computed, Counts, Distribution, Family, Labels


class ProbeAnswers(msgspec.Struct):
    """Those of one pod, by kind of the probe and name of the container."""

    counts: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    seconds: defaultdict[tuple[str, str], Distribution] = msgspec.field(
        default_factory=lambda: defaultdict(lambda: Distribution(DEFAULT_BOUNDS))
    )

    def add(self, kind: str, container: str, *, is_well: bool, seconds: float) -> None:
        self.counts[kind, "successful" if is_well else "failed", container] += 1
        if is_well:
            self.seconds[kind, container].observe(seconds)


def families(pods: Iterable[tuple[ObjectMeta, ProbeAnswers]]) -> tuple[Family, Family]:
    of_pods = list(pods)

    def counts() -> Iterator[tuple[Labels, float]]:
        for meta, answers in of_pods:
            for labels, count in answers.counts.items():
                yield (*labels, meta.name, meta.namespace, meta.uid), count

    def seconds() -> Iterator[tuple[Labels, Counts]]:
        for meta, answers in of_pods:
            for labels, distribution in answers.seconds.items():
                yield (*labels, meta.name, meta.namespace), distribution.read()

    total = "Cumulative number of a liveness, readiness or startup probe for a container by result."
    labels = ("probe_type", "result", "container", "pod", "namespace", "pod_uid")
    duration = "Duration in seconds for a probe response."
    return (
        Computed(COUNTER, "prober_probe_total", f"[ALPHA] {total}", labels, counts),
        Computed(
            HISTOGRAM,
            "prober_probe_duration_seconds",
            f"[ALPHA] {duration}",
            ("probe_type", "container", "pod", "namespace"),
            seconds,
            DEFAULT_BOUNDS,
        ),
    )
