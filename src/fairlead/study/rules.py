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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.golang import yaml as goyaml
from fairlead.sim.durations import seconds_of, span
from fairlead.study.changes.errors import ChangeError, Origin
from fairlead.study.changes.lines import Lines
from fairlead.study.figures import DURATIONS, FIGURES, OF_CLUSTER, OF_NAMESPACES, PARTS, WHOLE, Scope
from fairlead.study.foreseen import Foreseen
from fairlead.study.outcome import Outcome

_BOUNDS: Final = ("atMost", "atLeast", "notMoreThanBefore")
#: So much of what is no number is shown.
_MOST_SHOWN: Final = 60
_WORDS: Final = ("name", "of", "variant")
_NO_PRICE: Final = "no node has a price, so there is no cost"
#: The name of what all variants are compared with.
UNCHANGED: Final = "before"


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
        documents = list(goyaml.strict_documents(text)) or [None]
    except ValueError as problem:
        raise ChangeError(Origin(str(path)), str(problem)) from None
    lines = Lines(text)
    found: list[Rule] = []
    for number, document in enumerate(documents):
        if document is not None or len(documents) == 1:
            found += _rules(document, lambda *way, number=number: Origin(str(path), lines.of(number, way)))
    return found


def _rules(document: Any, place: Callable[..., Origin]) -> Iterator[Rule]:
    """Those of one document; `place` says where in the file something is."""
    entries = document.get("expect") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise ChangeError(place("expect"), "rules are a list under expect:")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ChangeError(place("expect", index), "a rule is a mapping of figures to bounds")
        figures = [word for word in entry if word not in _WORDS]
        if not figures:
            raise ChangeError(place("expect", index), f"a rule without a figure: there are {', '.join(FIGURES)}")
        try:
            scope = _scope(entry.get("of"))
        except ValueError as problem:
            raise ChangeError(place("expect", index, "of"), str(problem)) from None
        for word in figures:
            origin = place("expect", index, word)
            try:
                yield _rule(word, entry, scope, origin)
            except ValueError as problem:
                raise ChangeError(origin, str(problem)) from None


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
    if word in OF_NAMESPACES and scope.priority:
        raise ValueError(f"{word} is a figure of namespaces: leave out priority:")
    bounds = entry[word] if isinstance(entry[word], dict) else {"atMost": entry[word]}
    if not bounds or (unknown := bounds.keys() - set(_BOUNDS)):
        raise ValueError(f"{word}: bounds are {', '.join(_BOUNDS)}" + (f", not {min(unknown)!r}" if bounds else ""))
    most, least = (_number(word, bounds[key]) if key in bounds else None for key in ("atMost", "atLeast"))
    if most is not None and most < (least or 0):
        raise ValueError(f"{word}: nothing is at most {bounds['atMost']} and at least {bounds.get('atLeast', 0)}")
    if bounds.get("notMoreThanBefore", True) is not True:
        raise ValueError(f"{word}: notMoreThanBefore is true, or left out")
    name, variant = str(entry.get("name", "")), str(entry.get("variant", ""))
    return Rule(word, scope, origin, name, variant, most, least, "notMoreThanBefore" in bounds)


def _number(word: str, value: Any) -> float:
    text = str(value)
    is_part = word in PARTS and text.endswith("%")
    try:
        if word in DURATIONS:
            return seconds_of(text)
        found = float(text[:-1]) / 100 if is_part else float(text)
        if not math.isfinite(found):
            raise ValueError
    except ValueError:
        form = "a duration such as 5m" if word in DURATIONS else "a number"
        shown_ = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"
        raise ValueError(f"{word}: {shown_!r} is not {form}") from None
    if word in PARTS and not is_part and found > 1:
        raise ValueError(f"{word}: {text} is more than everything: write {text}%")
    return found


def check(rules: Sequence[Rule], variants: Sequence[str], foreseen: Foreseen) -> None:
    """Raises ChangeError for a rule of which it is known before the run that it cannot be judged. `variants` has the
    names of the changed ones.
    """
    for rule in rules:
        _check_variant(rule, variants or [UNCHANGED])
        scope = rule.scope
        if rule.not_more_than_before and not variants:
            raise ChangeError(rule.origin, "notMoreThanBefore takes a change to compare with")
        if scope.namespace and scope.namespace not in foreseen.namespaces:
            raise ChangeError(rule.origin, f"no pod is in namespace {scope.namespace!r}")
        if not any(map(scope.has_priority, foreseen.priorities)):
            raise ChangeError(rule.origin, f"no pod has the priority {scope.priority}")
        if rule.figure == "cost" and not foreseen.has_prices:
            raise ChangeError(rule.origin, _NO_PRICE)


def _check_variant(rule: Rule, variants: Sequence[str]) -> None:
    if rule.variant and rule.variant not in variants:
        raise ChangeError(rule.origin, f"there is no variant {rule.variant!r}: there are {', '.join(variants)}")


def judge(rules: Sequence[Rule], outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Of every variant but the first, or of the first where it is the only one. Raises ChangeError for a rule that
    cannot be judged, as turned out by now.
    """
    before, variants = outcomes[0], outcomes[1:] or outcomes
    names = [outcome.name for outcome in variants]
    found = []
    for rule in rules:
        _check_variant(rule, names)
        if not any(rule.scope.waits(outcome) for outcome in outcomes) and not rule.scope.is_whole:
            raise ChangeError(rule.origin, _about_nobody(rule.scope, outcomes))
        if rule.figure == "cost" and any(outcome.cost is None for outcome in variants):
            raise ChangeError(rule.origin, _NO_PRICE)
        found += [_judged(rule, before, variant) for variant in variants if rule.variant in ("", variant.name)]
    return found


def _about_nobody(scope: Scope, outcomes: Sequence[Outcome]) -> str:
    where = f" in namespace {scope.namespace!r}" if scope.namespace else ""
    if not where or any(Scope(scope.namespace).waits(outcome) for outcome in outcomes):
        return f"no pod{where} has the priority {scope.priority}"
    return f"no pod is{where}"


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
    text = f"{rule.figure}{_of(rule.scope)} is {shown(rule.figure, value)}, asked: {asked}"
    return Verdict(variant.name, all(is_met for is_met, _ in bounds), f"{rule.name}: {text}" if rule.name else text)


def _of(scope: Scope) -> str:
    parts = filter(None, (scope.namespace, scope.priority and f"priority {scope.priority}"))
    return "" if scope.is_whole else f" of {', '.join(parts)}"


def shown(figure: str, value: float) -> str:
    """A figure for people."""
    if figure in DURATIONS:
        return span(value)
    if figure in PARTS:
        return f"{value:.0%}"
    if figure == "nodeHours":
        return f"{value:,.1f}"
    return f"{value:,.2f}" if figure == "cost" else f"{value:,.0f}"
