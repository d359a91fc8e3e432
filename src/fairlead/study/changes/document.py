"""Reads files of changes: ordinary manifests, and documents of the kind `Change` with timed steps.

kubectl's manifests   applied when the run begins, or at the time of their annotation sim.fairlead.dev/at
kind: Change          steps, each with one word of `table.py`, and `at:` when (from the beginning; 0 by default)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.golang import yaml as goyaml
from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.configuration_file import read_configuration
from fairlead.sim.behaviour import PREFIX
from fairlead.sim.durations import seconds_of
from fairlead.sim.usage.objects import GROUP, VERSION
from fairlead.study.changes.actions import Action, Apply
from fairlead.study.changes.errors import ChangeError, Origin
from fairlead.study.changes.lines import Lines
from fairlead.study.changes.table import ACTIONS
from fairlead.study.reading import mapping_at

KIND: Final = "Change"
AT: Final = PREFIX + "at"
_FIELDS: Final = ("apiVersion", "kind", "metadata", "steps", "scheduler")


class Step(msgspec.Struct, frozen=True):
    """Something that happens so many seconds after the beginning."""

    at: float
    action: Action
    origin: Origin


class Change(msgspec.Struct, frozen=True):
    """A variant of the future."""

    name: str
    steps: tuple[Step, ...] = ()
    #: How the scheduler decides there from the beginning; None: as without the change.
    scheduler: Configuration | None = None
    origin: Origin = msgspec.field(default_factory=lambda: Origin("change"))


def read_change(path: Path) -> Change:
    """Raises ChangeError, with the line, for a file that is none."""
    text = path.read_bytes()
    steps: list[Step] = []
    name, scheduler = path.stem, None
    try:
        documents = list(goyaml.strict_documents(text))
    except ValueError as problem:
        raise ChangeError(Origin(str(path)), str(problem)) from None
    lines = Lines(text)
    for number, document in enumerate(documents):
        if document is None:
            continue
        reader = _Reader(path, lines, number)
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise reader.error("every document needs a kind: a manifest, or kind: Change with steps")
        if document["kind"] == KIND and str(document.get("apiVersion", "")).startswith(GROUP):
            if document["apiVersion"] != f"{GROUP}/{VERSION}":
                raise reader.error(f"apiVersion: {document['apiVersion']!r} is not {GROUP}/{VERSION}", "apiVersion")
            name = reader.name(document) or name
            scheduler = reader.scheduler(document) or scheduler
            steps += reader.steps(document)
        else:
            steps += reader.manifests(document)
    if not steps and scheduler is None:
        raise ChangeError(Origin(str(path)), "changes nothing: it holds no manifest and no step")
    return Change(name, tuple(sorted(steps, key=lambda step: step.at)), scheduler, Origin(str(path)))


def step_of(origin: Origin, word: str, value: Any, at: float = 0.0) -> Step:
    """A step that is written elsewhere than in a file."""
    return Step(at, _action(word, value, lambda problem, *path: ChangeError(origin, problem)), origin)


class _Reader:
    """One document of a file."""

    def __init__(self, path: Path, lines: Lines, number: int) -> None:
        self._path, self._lines, self._number = path, lines, number

    def error(self, problem: str, *path: str | int) -> ChangeError:
        return ChangeError(self._origin(path), problem)

    def _origin(self, path: Sequence[str | int]) -> Origin:
        return Origin(str(self._path), self._lines.of(self._number, path))

    def name(self, document: Obj) -> str:
        meta = document.get("metadata") or {}
        found = meta.get("name") or "" if isinstance(meta, dict) else None
        if not isinstance(found, str):
            raise self.error("metadata of a Change must be a mapping with a name", "metadata")
        return found

    def scheduler(self, document: Obj) -> Configuration | None:
        for field_ in document:
            if field_ not in _FIELDS:
                raise self.error(f"unknown field {field_!r}: a Change has {', '.join(_FIELDS)}", field_)
        file = document.get("scheduler")
        if file is None:
            return None
        found = self._path.parent / str(file)
        try:
            return read_configuration(found)
        except (OSError, ValueError) as problem:
            raise self.error(f"scheduler: {problem}", "scheduler") from None

    def steps(self, document: Obj) -> Iterator[Step]:
        steps = document.get("steps")
        if steps is None:
            return
        if not isinstance(steps, list):
            raise self.error("steps must be a list", "steps")
        for index, step in enumerate(steps):
            yield self._step(step, index)

    def _step(self, step: Any, index: int) -> Step:
        words = [word for word in step if word != "at"] if isinstance(step, dict) else []
        if len(words) != 1:
            known = ", ".join(ACTIONS)
            raise self.error(f"a step has at: and one of {known}", "steps", index)
        word = words[0]
        if word not in ACTIONS:
            raise self.error(f"unknown step {word!r}: there are {', '.join(ACTIONS)}", "steps", index, word)
        at = self._seconds(step.get("at", 0), "steps", index, "at")
        value = step[word]
        if word == "apply":
            value = {"manifests": [*self._objects(value, "steps", index, word)]}
        action = _action(word, value, lambda problem, *path: self.error(problem, "steps", index, word, *path))
        return Step(at, action, self._origin(("steps", index)))

    def manifests(self, document: Obj) -> Iterator[Step]:
        for obj in self._objects(document):
            at = self._seconds(mapping_at(obj, "metadata", "annotations").get(AT, 0), "metadata", "annotations", AT)
            yield Step(at, Apply(manifests=(obj,)), self._origin(()))

    def _objects(self, value: Any, *path: str | int) -> Iterator[Obj]:
        """Manifests; lists taken apart."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._objects(item, *path, index)
        elif not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            raise self.error("a manifest needs a kind", *path)
        elif value["kind"].endswith("List") and isinstance(value.get("items"), list):
            yield from self._objects(value["items"], *path, "items")
        elif not isinstance(value.get("metadata"), dict):
            raise self.error(f"metadata of {value['kind']} must be a mapping with a name", *path)
        else:
            yield value

    def _seconds(self, value: Any, *path: str | int) -> float:
        try:
            return seconds_of(str(value))
        except ValueError as problem:
            raise self.error(str(problem), *path) from None


def _action(word: str, value: Any, error: Any) -> Action:
    kind = ACTIONS[word]
    if kind.short and not isinstance(value, dict):
        value = {kind.short: value}
    try:
        return msgspec.convert(_with_texts(value, kind), kind)
    except (msgspec.ValidationError, ValueError) as problem:
        raise error(f"{word}: {problem}") from None


def _with_texts(value: Any, kind: type[Action]) -> Any:
    """`cpu: 4` is an amount as much as `cpu: "4"`, as in a manifest; likewise of durations and extended resources."""
    if not isinstance(value, dict):
        return value
    texts = {field.encode_name for field in msgspec.structs.fields(kind) if field.type is str}
    found = {name: _text(given) if name in texts else given for name, given in value.items()}
    if isinstance(amounts := found.get("resources"), dict):
        found["resources"] = {name: _text(amount) for name, amount in amounts.items()}
    return found


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
