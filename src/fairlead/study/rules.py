"""Rules that a change has to meet: a question that CI can ask.

expect:
- name: production waits for nothing
  of: {namespace: prod, priority: ">=1000"}
  longestWait: 5m              # at most
  preempted: 0
  oomKilled: {notMoreThanBefore: true}
- cpuRequested: {atLeast: 50%, atMost: 90%}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.golang import yaml as goyaml
from fairlead.sim.durations import seconds_of, span
from fairlead.study.changes.errors import ChangeError, Origin
from fairlead.study.changes.lines import Lines
from fairlead.study.figures import DURATIONS, FIGURES, OF_CLUSTER, PARTS, WHOLE, Scope, namespaces
from fairlead.study.outcome import Outcome

_BOUNDS: Final = ("atMost", "atLeast", "notMoreThanBefore")
_WORDS: Final = ("name", "of", "variant")


class Rule(msgspec.Struct, frozen=True):
    """One figure of one scope and its bounds."""

    figure: str
    scope: Scope
    origin: Origin
    name: str = ""
    #: Only of the variant of that name; empty: of all but that without a change.
    variant: str = ""
    at_most: float | None = None
    at_least: float | None = None
    not_more_than_before: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """Whether a variant meets a rule."""

    variant: str
    is_met: bool
    text: str


def read_rules(path: Path) -> list[Rule]:
    """Raises ChangeError, with the line, for a file that holds none or something else."""
    text = path.read_bytes()
    try:
        document = next(goyaml.strict_documents(text), None)
    except ValueError as problem:
        raise ChangeError(Origin(str(path)), str(problem)) from None

    lines = Lines(text)

    def error(problem: str, *way: str | int) -> ChangeError:
        return ChangeError(Origin(str(path), lines.of(0, way)), problem)

    entries = document.get("expect") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise error("rules are a list under expect:", "expect")
    found: list[Rule] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise error("a rule is a mapping of figures to bounds", "expect", index)
        figures = [word for word in entry if word not in _WORDS]
        if not figures:
            raise error(f"a rule without a figure: there are {', '.join(FIGURES)}", "expect", index)
        try:
            scope = _scope(entry.get("of"))
        except ValueError as problem:
            raise error(str(problem), "expect", index, "of") from None
        for word in figures:
            origin = Origin(str(path), lines.of(0, ("expect", index, word)))
            try:
                found.append(_rule(word, entry, scope, origin))
            except ValueError as problem:
                raise ChangeError(origin, str(problem)) from None
    return found


def _scope(value: Any) -> Scope:
    if value is None:
        return WHOLE
    if not isinstance(value, dict) or (value.keys() - {"namespace", "priority"}):
        raise ValueError("of: takes namespace and priority")
    return Scope(str(value.get("namespace", "")), str(value.get("priority", "")))


def _rule(word: str, entry: Mapping[str, Any], scope: Scope, origin: Origin) -> Rule:
    if word not in FIGURES:
        raise ValueError(f"unknown figure {word!r}: there are {', '.join(FIGURES)}")
    if word in OF_CLUSTER and not scope.is_whole:
        raise ValueError(f"{word} is a figure of the whole cluster: leave out of:")
    bounds = entry[word] if isinstance(entry[word], dict) else {"atMost": entry[word]}
    if not bounds or (unknown := bounds.keys() - set(_BOUNDS)):
        raise ValueError(f"{word}: bounds are {', '.join(_BOUNDS)}" + (f", not {min(unknown)!r}" if bounds else ""))
    most, least = (_number(word, bounds[key]) if key in bounds else None for key in ("atMost", "atLeast"))
    if most is not None and most < (least or 0):
        raise ValueError(f"{word}: nothing is at most {bounds['atMost']} and at least {bounds.get('atLeast', 0)}")
    name, variant = str(entry.get("name", "")), str(entry.get("variant", ""))
    return Rule(word, scope, origin, name, variant, most, least, bool(bounds.get("notMoreThanBefore")))


def _number(word: str, value: Any) -> float:
    text = str(value)
    try:
        if word in DURATIONS:
            return seconds_of(text)
        is_part = word in PARTS and text.endswith("%")
        found = float(text[:-1]) / 100 if is_part else float(text)
        if not math.isfinite(found):
            raise ValueError
        return found
    except ValueError:
        form = "a duration such as 5m" if word in DURATIONS else "a number"
        raise ValueError(f"{word}: {text!r} is not {form}") from None


def judge(rules: Sequence[Rule], outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Of every variant but the first, or of the first where it is the only one. Raises ChangeError for a rule that
    cannot be judged.
    """
    before, variants = outcomes[0], outcomes[1:] or outcomes
    names, known = [outcome.name for outcome in variants], namespaces(outcomes)
    found = []
    for rule in rules:
        if rule.variant and rule.variant not in names:
            raise ChangeError(rule.origin, f"there is no variant {rule.variant!r}: there are {', '.join(names)}")
        if rule.scope.namespace and rule.scope.namespace not in known:
            raise ChangeError(rule.origin, f"no pod is in namespace {rule.scope.namespace!r}")
        if rule.not_more_than_before and len(outcomes) == 1:
            raise ChangeError(rule.origin, "notMoreThanBefore takes a change to compare with")
        if rule.figure == "cost" and any(outcome.cost is None for outcome in variants):
            raise ChangeError(rule.origin, "no node has a price, so there is no cost")
        found += [_judged(rule, before, variant) for variant in variants if rule.variant in ("", variant.name)]
    return found


def _judged(rule: Rule, before: Outcome, variant: Outcome) -> Verdict:
    figure = FIGURES[rule.figure]
    value = figure(variant, rule.scope)
    bounds = []
    if rule.at_most is not None:
        bounds.append((value <= rule.at_most, f"at most {shown(rule.figure, rule.at_most)}"))
    if rule.at_least is not None:
        bounds.append((value >= rule.at_least, f"at least {shown(rule.figure, rule.at_least)}"))
    if rule.not_more_than_before:
        known = figure(before, rule.scope)
        bounds.append((value <= known, f"not more than {shown(rule.figure, known)} as before"))
    asked = ", ".join(text for _, text in bounds)
    of = (
        " of " + ", ".join(filter(None, (rule.scope.namespace, rule.scope.priority))) if not rule.scope.is_whole else ""
    )
    text = f"{rule.figure}{of} is {shown(rule.figure, value)}, asked: {asked}"
    return Verdict(variant.name, all(is_met for is_met, _ in bounds), f"{rule.name}: {text}" if rule.name else text)


def shown(figure: str, value: float) -> str:
    """A figure for people."""
    if figure in DURATIONS:
        return span(value)
    if figure in PARTS:
        return f"{value:.0%}"
    if figure == "nodeHours":
        return f"{value:,.1f}"
    return f"{value:,.2f}" if figure == "cost" else f"{value:,.0f}"
