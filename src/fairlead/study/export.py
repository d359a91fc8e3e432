"""A run as data: a JSON document, and a table with a row for each pod to which something happened."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import IO, Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.runtime.clock import timestamp
from fairlead.sim.histories import Disruption, PodHistory
from fairlead.study.comparison import Hurt, lost, missing, worse
from fairlead.study.figures import FIGURES, WHOLE
from fairlead.study.outcome import Outcome
from fairlead.study.records import Run
from fairlead.study.rules import Verdict

COLUMNS: Final = (
    "variant",
    "namespace",
    "pod",
    "lineage",
    "priority",
    "owner",
    "node",
    "created",
    "bound",
    "ended",
    "waited_seconds",
    "is_waiting",
    "oom_kills",
    "disruptions",
    "reason",
)


class ExtraMissing(ValueError):
    """A library that an extra of the package brings is not there."""


def check_extra(library: str, what: str) -> None:
    """Raises ExtraMissing. To be asked before a run, which may take long."""
    if find_spec(library) is None:
        raise ExtraMissing(f"{what} takes {library}: pip install 'fairlead[report]'")


def run_document(run: Run, verdicts: Sequence[Verdict] = ()) -> Obj:
    """Without variants it is the summary of the one run."""
    if not run.variants:
        document = run.before.summary | {"seed": run.seed}
        return document | ({"rules": _rules(verdicts)} if verdicts else {})
    document = {
        "run": run.name,
        "seed": run.seed,
        "digest": run.digest,
        "before": _outcome(run.before),
        "variants": [
            _outcome(variant)
            | {"worse": [_hurt(hurt) for hurt in worse(run.before, variant)]}
            | {"missing": msgspec.to_builtins(missing(run.before, variant))}
            | {"gone": msgspec.to_builtins(lost(run.before, variant))}
            for variant in run.variants
        ],
    }
    if run.found is not None:
        document["found"] = run.found
    return document | ({"rules": _rules(verdicts)} if verdicts else {})


def _rules(verdicts: Sequence[Verdict]) -> list[Obj]:
    return [{"variant": verdict.variant, "met": verdict.is_met, "text": verdict.text} for verdict in verdicts]


def _outcome(outcome: Outcome) -> Obj:
    figures = {name: round(figure(outcome, WHOLE), 4) for name, figure in FIGURES.items()}
    waits = [
        {
            "namespace": group.namespace,
            "priority": group.priority,
            "pods": group.pods,
            "waiting": group.still_waiting,
            "median": group.quantile(0.5),
            "p95": group.quantile(0.95),
            "longest": group.longest,
        }
        for group in outcome.waits
    ]
    return {
        "name": outcome.name,
        "figures": figures,
        "waits": waits,
        "quotas": msgspec.to_builtins(outcome.quotas),
        "shortfalls": msgspec.to_builtins(outcome.shortfalls),
        "fragmentation": outcome.fragmentation,
        "fairness": msgspec.to_builtins(outcome.fairness),
        "steps": [{"at": timestamp(step.at), "step": step.text, "ended": step.has_ended} for step in outcome.steps],
        "heldUp": msgspec.to_builtins(outcome.held_up),
        "summary": outcome.summary,
    }


def _hurt(hurt: Hurt) -> Obj:
    found: Obj = msgspec.to_builtins(hurt)
    return found | {"since": timestamp(hurt.since)}


def rows(run: Run) -> Iterator[dict[str, Any]]:
    for outcome in run.outcomes:
        for pod in outcome.pods:
            yield {
                "variant": outcome.name,
                "namespace": pod.namespace,
                "pod": pod.pod.partition("/")[2],
                "lineage": pod.lineage,
                "priority": pod.priority,
                "owner": pod.owner,
                "node": pod.node,
                "created": timestamp(pod.created),
                "bound": timestamp(pod.bound) if pod.bound is not None else None,
                "ended": timestamp(pod.ended) if pod.ended is not None else None,
                "waited_seconds": round(pod.waited(outcome.ended), 3),
                "is_waiting": pod.is_waiting,
                "oom_kills": pod.oom_kills,
                "disruptions": ", ".join(disruption.kind for disruption in pod.disruptions),
                "reason": _reason(pod),
            }


def _reason(pod: PodHistory) -> str:
    """Why it waits; else the last that was done to it, else why it waited."""
    done = "" if pod.is_waiting or not pod.disruptions else _cause(pod.disruptions[-1])
    return done or pod.waits_for


def _cause(disruption: Disruption) -> str:
    """What was said of it, or whose doing it was."""
    return disruption.message or (f"by {disruption.by}" if disruption.by else "")


def run_csv(run: Run) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(run))
    return text.getvalue()


def write_parquet(run: Run, file: IO[bytes]) -> None:
    """Takes pyarrow (`check_extra`)."""
    import pyarrow as arrow
    from pyarrow import parquet

    found = list(rows(run))
    kinds = {
        "priority": arrow.int64(),
        "waited_seconds": arrow.float64(),
        "is_waiting": arrow.bool_(),
        "oom_kills": arrow.int64(),
    }
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in COLUMNS])
    parquet.write_table(arrow.Table.from_pylist(found, schema=schema), file)
