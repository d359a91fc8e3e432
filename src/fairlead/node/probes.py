"""What the probes of a container come to: when it is ready, and what its node says until then.

A container is probed every `periodSeconds` from its start on, but not before `initialDelaySeconds`. It is ready after
`successThreshold` answers in a row. Until its startup probe has succeeded, no other is made; then readiness is probed
without waiting for the next period. Source: pkg/kubelet/prober/worker.go, prober_manager.go.
"""

from __future__ import annotations

import math

import msgspec

from fairlead.api.pods import Probe


class AnswerCounter(msgspec.Struct):
    """Answers in a row, where a container is really asked."""

    is_well: bool | None = None
    in_a_row: int = 0

    def verdict(self, probe: Probe, *, is_well: bool) -> bool | None:
        """Whether the probe has passed or failed after this answer; None while that needs more of the same."""
        self.in_a_row = self.in_a_row + 1 if is_well == self.is_well else 1
        self.is_well = is_well
        threshold = probe.success_threshold if is_well else probe.failure_threshold
        return is_well if self.in_a_row >= threshold else None


def first_probe_at(probe: Probe, started_at: float, since: float, after: float) -> float:
    """The first probe, at `after` or later, of a container that started then and is probed from `since` on."""
    if after <= since >= started_at + probe.initial_delay_seconds:
        return since
    earliest = max(probe.initial_delay_seconds, after - started_at)
    return started_at + math.ceil(earliest / probe.period_seconds) * probe.period_seconds


def passes_at(probe: Probe, started_at: float, since: float, answers_at: float) -> float | None:
    """When the probe has succeeded often enough if the container answers from then on; None if it never does."""
    if math.isinf(answers_at):
        return None
    return first_probe_at(probe, started_at, since, answers_at) + (probe.success_threshold - 1) * probe.period_seconds


def starts_at(probe: Probe, started_at: float, answers_at: float) -> float | None:
    """When the startup probe succeeds; None if it fails too often before that, or never answers."""
    passed_at = passes_at(probe, started_at, started_at, answers_at)
    first = first_probe_at(probe, started_at, started_at, started_at)
    last = first + (probe.failure_threshold - 1) * probe.period_seconds
    return passed_at if passed_at is not None and passed_at <= last else None


def failures(probe: Probe, started_at: float, fails_at: float, now: float) -> tuple[int, float]:
    """How often the probe of a container that fails from then on has failed by now, and when it does so next."""
    first = first_probe_at(probe, started_at, started_at, fails_at)
    if now < first:
        return 0, first
    count = int((now - first) // probe.period_seconds) + 1
    return count, first + count * probe.period_seconds


def failure(probe: Probe, pod_ip: str) -> str:
    """What a probe says of a container that does not answer it well."""
    if probe.http_get is not None:
        return "HTTP probe failed with statuscode: 503"
    if probe.tcp_socket is not None:
        return f"dial tcp {pod_ip}:{probe.tcp_socket.port}: connect: connection refused"
    if probe.grpc is not None:
        return 'service unhealthy (responded with "NOT_SERVING")'
    return ""
