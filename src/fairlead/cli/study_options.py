"""Options of `fairlead simulate` that say what is changed, what is expected, and where the run is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec
from msgspec.structs import replace

from fairlead.cli.failures import WrongUsage
from fairlead.study.changes.document import Change, Step, read_change, step_of
from fairlead.study.changes.errors import Origin
from fairlead.study.changes.settings import split
from fairlead.study.rules import UNCHANGED, Rule, read_rules
from fairlead.study.sweep import Sweep, parse_sweep

Command = TypeVar("Command", bound=Callable[..., Any])

_STATED: Final = "fairlead.study"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TARGET = click.Path(dir_okay=False, path_type=Path)

#: Short forms of steps at the beginning: the option, the word of the step, its help.
_SHORT_FORMS: Final = (
    (
        "--set",
        "set",
        "WHAT=VALUE",
        "Set a value: nodes=95, quota/team/requests.cpu=40, deployment/shop/web/spec.replicas=5.",
    ),
    ("--remove-node", "removeNode", "NODE", "Remove a node."),
    ("--drain", "drain", "NODE", "Drain a node."),
    ("--fail-node", "failNode", "NODE", "A node goes off."),
)


class StudyRequest(msgspec.Struct, frozen=True):
    """What is to be played beside the cluster as it is."""

    changes: tuple[Change, ...] = ()
    sweep: Sweep | None = None
    find: str | None = None
    rules: tuple[Rule, ...] = ()
    html: Path | None = None
    save: Path | None = None
    is_kept: bool = True

    @property
    def base(self) -> Change:
        """The cluster as it is."""
        return Change(UNCHANGED)

    def variants(self) -> list[Change]:
        if self.sweep is None:
            return list(self.changes)
        bases = self.changes or (self.base,)
        return [self.sweep.variant(value, change) for change in bases for value in self.sweep.values]

    def variant(self, value: str) -> Change:
        assert self.sweep is not None
        return self.sweep.variant(value, self.changes[0] if self.changes else self.base)


def study_options(command: Command) -> Command:
    """`study_request` has what they say."""
    options = [
        _option(
            "--change",
            multiple=True,
            type=_FILE,
            help="A file of changes: manifests, or kind: Change with timed steps. May be repeated: each is a variant.",
        ),
        *(
            _option(name, multiple=True, metavar=metavar, help=f"{text} In every variant.")
            for name, _, metavar, text in _SHORT_FORMS
        ),
        _option(
            "--sweep",
            multiple=True,
            metavar="WHAT=FROM..TO[:STEP]",
            help="A variant for each value of what --set takes; of one thing alone.",
        ),
        _option(
            "--find",
            type=click.Choice(["smallest", "largest"]),
            help="Of a sweep, the value that still meets --expect, by bisection.",
        ),
        _option(
            "--expect",
            multiple=True,
            type=_FILE,
            help="Rules that the variants have to meet; else the exit code is 1. May be repeated.",
        ),
        _option("--html", type=_TARGET, help="Write a report to send to others (takes the extra fairlead[report])."),
        _option("--save", type=_TARGET, help="Keep the run in this file, for fairlead why --in and fairlead diff."),
        _option("--no-keep", is_flag=True, help="Do not keep it among the user's latest runs."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _option(name: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(name, expose_value=False, callback=_collect, **settings)


def _collect(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_STATED, {})[parameter.opts[0]] = value


def study_request() -> StudyRequest:
    """What the options of the present command say. Raises ValueError and WrongUsage."""
    stated = click.get_current_context().meta.get(_STATED, {})
    steps = _short_steps(stated)
    changes = [read_change(path) for path in stated.get("--change") or ()]
    if len({UNCHANGED, *(change.name for change in changes)}) <= len(changes):
        changes = [replace(change, name=str(change.origin)) for change in changes]
    if len({change.name for change in changes}) < len(changes):
        raise WrongUsage("a file is given to --change twice: each is a variant of its own")
    if steps and not changes:
        changes = [Change("changed", steps)]
    elif steps:
        changes = [replace(change, steps=(*steps, *change.steps)) for change in changes]
    sweeps = [parse_sweep(text) for text in stated.get("--sweep") or ()]
    if len(sweeps) > 1:
        raise WrongUsage("--sweep is given twice: it takes one thing, and --set the value of another")
    sweep = sweeps[0] if sweeps else None
    rules = tuple(rule for path in stated.get("--expect") or () for rule in read_rules(path))
    find = stated.get("--find")
    if find is not None and (sweep is None or not rules or len(changes) > 1):
        raise WrongUsage("--find takes a --sweep, the rules of --expect, and one --change at most")
    return StudyRequest(
        tuple(changes), sweep, find, rules, stated.get("--html"), stated.get("--save"), not stated.get("--no-keep")
    )


def _short_steps(stated: dict[str, Any]) -> tuple[Step, ...]:
    steps = []
    for name, word, _, _ in _SHORT_FORMS:
        for value in stated.get(name) or ():
            if word == "set":
                split(value)
            steps.append(step_of(Origin(f"{name} {value}"), word, value))
    return tuple(steps)
