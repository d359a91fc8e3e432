"""UsageProfile: what pods of a namespace use, selected by their labels. The kind, its schema, and how it is read.

The schema lets texts pass that mean nothing, for there is no time to refuse them: an event on the profile says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.selectors import SelectorError, of_structured
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informers
from fairlead.sim.usage.declared import INVALID_USAGE
from fairlead.sim.usage.expressions import LONGEST_TEXT, Scale, parse_usage
from fairlead.sim.usage.images import repository
from fairlead.sim.usage.measures import VOLUME, Measure, Unit
from fairlead.sim.usage.models import Series
from fairlead.sim.usage.profiles import Profile, Profiles
from fairlead.sim.usage.resolving import measure_named
from fairlead.sim.usage.traces import LONGEST_TEXT as LONGEST_TRACE
from fairlead.sim.usage.traces import csv_series, prometheus_series

GROUP: Final = "sim.fairlead.dev"
VERSION: Final = "v1alpha1"
USAGE_PROFILES: Final = Resource(
    GROUP, VERSION, "usageprofiles", "UsageProfile", namespaced=True, singular="usageprofile", short_names=("uprof",)
)
#: How many traces a profile may bring, and how many measures it may speak of.
MOST_TRACES: Final = 16
MOST_USAGES: Final = 64
MOST_IMAGES: Final = 64
#: How much of what is wrong an event quotes, as the API server allows in an events.k8s.io note.
LONGEST_PROBLEM: Final = 1024


class TraceSource(View):
    csv: str | None = None
    prometheus: str | None = None


class UsageProfileSpec(View):
    selector: dict[str, Any] | None = None
    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    usage: dict[str, str] = {}
    traces: dict[str, TraceSource] = {}


class UsageProfile(Object):
    spec: UsageProfileSpec = UsageProfileSpec()


def follow(
    profiles: Profiles,
    informers: Informers,
    recorder: EventRecorder | None = None,
    on_change: Callable[[str], None] = lambda namespace: None,
) -> None:
    """Keep the profiles as the cluster has them; `on_change` hears of which namespace one has changed.

    What makes no sense is told by an event on the profile.
    """

    def changed(old: UsageProfile | None, new: UsageProfile | None) -> None:
        profile = new or old
        assert profile is not None
        if new is None:
            assert old is not None
            profiles.remove(old.metadata.namespace, old.metadata.name)
        elif old is None or old.spec != new.spec:
            found, problems = profile_of(new)
            profiles.put(found)
            for problem in problems:
                if recorder:
                    recorder.event(new, WARNING, INVALID_USAGE, problem[:LONGEST_PROBLEM])
        else:
            return
        on_change(profile.metadata.namespace)

    informers.of(USAGE_PROFILES, UsageProfile).subscribe(changed)


def profile_of(obj: UsageProfile) -> tuple[Profile, list[str]]:
    """The profile as far as it makes sense, and what does not."""
    spec, meta = obj.spec, obj.metadata
    problems: list[str] = []
    traces = dict(_traces(spec.traces, problems))
    try:
        selector = of_structured(spec.selector)
    except SelectorError as error:
        problems.append(f"spec.selector: {error}")
        selector = of_structured(None)
    usage = {}
    for name, text in spec.usage.items():
        try:
            unit = Unit.BYTES if name.startswith(VOLUME) else measure_named(Measure, name).unit
            parse_usage(text, unit, Scale(0.0, 0.0), traces)
            usage[name] = text
        except ValueError as error:
            problems.append(f"spec.usage[{name}]: {error}")
    if spec.images and spec.containers:
        problems.append("spec.containers: does not count beside spec.images")
    images = frozenset(map(repository, spec.images))
    return Profile(meta.namespace, meta.name, selector, frozenset(spec.containers), images, usage, traces), problems


def _traces(sources: Mapping[str, TraceSource], problems: list[str]) -> Iterator[tuple[str, Series]]:
    for name, source in sources.items():
        try:
            match source:
                case TraceSource(csv=str(text), prometheus=None):
                    yield name, csv_series(text)
                case TraceSource(csv=None, prometheus=str(text)):
                    yield name, prometheus_series(text)
                case _:
                    raise ValueError("a trace is either csv or prometheus")
        except ValueError as error:
            problems.append(f"spec.traces[{name}]: {error}")


def definition() -> Obj:
    """The CustomResourceDefinition, fresh."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": "Selector", "type": "string", "jsonPath": ".spec.selector.matchLabels"},
            {"name": "Usage", "type": "string", "jsonPath": ".spec.usage"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": _spec_schema()}}},
    }
    names = {
        "plural": USAGE_PROFILES.plural,
        "singular": USAGE_PROFILES.singular,
        "kind": USAGE_PROFILES.kind,
        "listKind": f"{USAGE_PROFILES.kind}List",
        "shortNames": list(USAGE_PROFILES.short_names),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": USAGE_PROFILES.qualified},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _spec_schema() -> Obj:
    text: Obj = {"type": "string"}
    texts: Obj = {"type": "array", "items": text}
    expression: Obj = {
        "type": "object",
        "required": ["key", "operator"],
        "properties": {"key": text, "operator": text, "values": texts},
    }
    selector: Obj = {
        "type": "object",
        "description": "Which pods of the namespace; an empty one selects all.",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": text},
            "matchExpressions": {"type": "array", "items": expression},
        },
    }
    trace: Obj = {"type": "string", "maxLength": LONGEST_TRACE}
    source: Obj = {
        "type": "object",
        "properties": {
            "csv": trace | {"description": "Rows of TIME,AMOUNT; times are seconds, or dates as in RFC 3339."},
            "prometheus": trace | {"description": "What Prometheus answers to a range query, as JSON."},
        },
    }
    usage = {
        "type": "object",
        "description": "By measure (memory, cpu, volume.NAME, …): 300Mi, 60%, ramp(from=1Mi, to=1Gi, over=10m), …",
        "maxProperties": MOST_USAGES,
        "additionalProperties": text | {"maxLength": LONGEST_TEXT},
    }
    return {
        "type": "object",
        "required": ["selector", "usage"],
        "properties": {
            "selector": selector,
            "containers": texts | {"description": "Which containers of these pods; none named: all of them."},
            "images": texts
            | {"description": "Containers of these images alone, whatever their tags.", "maxItems": MOST_IMAGES},
            "usage": usage,
            "traces": {"type": "object", "maxProperties": MOST_TRACES, "additionalProperties": source},
        },
    }
