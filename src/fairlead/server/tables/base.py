"""What a table of a kind is made of: columns, each with the function that finds its cell in an object.

A kind is then one expression, header and value of a column side by side. The server prints every column, also those
that only `-o wide` shows: their priority tells kubectl which to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from fairlead.api.objects import Obj
from fairlead.runtime.clock import parse_timestamp
from fairlead.server.tables.text import UNKNOWN, human_duration

_NOTHING: Final[Obj] = {}


class Subject:
    """The object that is being printed, and when. A kind with much to work out has a subclass."""

    def __init__(self, obj: Obj, now: float) -> None:
        self.obj = obj
        self.now = now
        self.metadata: Obj = obj.get("metadata") or _NOTHING
        self.spec: Obj = obj.get("spec") or _NOTHING
        self.status: Obj = obj.get("status") or _NOTHING

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def age(self) -> str:
        return self.since(self.metadata.get("creationTimestamp"))

    @property
    def is_deleted(self) -> bool:
        """Its deletion was asked for; finalizers or a grace period keep it."""
        return self.metadata.get("deletionTimestamp") is not None

    def since(self, timestamp: str | None) -> str:
        return human_duration(self.now - parse_timestamp(timestamp)) if timestamp else UNKNOWN

    def row_conditions(self) -> list[Obj]:
        """What to tell about the row as a whole."""
        return []

    def marked_default(self, *annotations: str) -> str:
        """The name, and whether an annotation makes this the default of its kind."""
        present = self.metadata.get("annotations") or _NOTHING
        is_default = any(present.get(annotation) == "true" for annotation in annotations)
        return f"{self.name} (default)" if is_default else self.name


S = TypeVar("S", bound=Subject)
S_contra = TypeVar("S_contra", bound=Subject, contravariant=True)


@dataclass(frozen=True)
class ColumnOf(Generic[S_contra]):
    """One column; `value` finds the cell."""

    name: str
    value: Callable[[S_contra], Any]
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    @property
    def definition(self) -> Obj:
        """The column as the head of a table declares it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Column: TypeAlias = ColumnOf[Subject]


class Printer(Protocol):
    """Prints objects of one kind."""

    @property
    def columns(self) -> list[Obj]: ...

    def rows(self, obj: Obj, now: float) -> list[Obj]:
        """The rows of one object: cells in the order of the columns, perhaps conditions."""


class PrinterOf(Generic[S]):
    """Prints objects of one kind by its columns."""

    def __init__(self, subject: type[S], columns: Sequence[ColumnOf[S]], unheaded: Sequence[ColumnOf[S]] = ()) -> None:
        """`unheaded`: cells at the end of a row that no column announces."""
        self.columns: list[Obj] = [column.definition for column in columns]
        self._subject = subject
        self._values = [column.value for column in (*columns, *unheaded)]

    def rows(self, obj: Obj, now: float) -> list[Obj]:
        subject = self._subject(obj, now)
        row: Obj = {"cells": [value(subject) for value in self._values]}
        if conditions := subject.row_conditions():
            row["conditions"] = conditions
        return [row]


def printer(*columns: Column) -> Printer:
    """The printer of a kind that needs nothing special."""
    return PrinterOf(Subject, columns)


def field(*path: str, default: Any = "") -> Callable[[Subject], Any]:
    """The value at a path; the default if it is absent."""
    *above, last = path

    def find(it: Subject) -> Any:
        found = it.obj
        for key in above:
            found = found.get(key) or _NOTHING
        value = found.get(last)
        return default if value is None else value

    return find


def count(*path: str) -> Callable[[Subject], int]:
    """How many entries the list or map at a path has."""
    find = field(*path, default=())
    return lambda it: len(find(it))


NAME: Final = Column("Name", lambda it: it.name, "The object's name, unique among its kind.", format="name")
AGE: Final = Column("Age", lambda it: it.age, "Time since the object was created.")


def containers(*pod_template: str, priority: int = 1) -> tuple[Column, Column]:
    """The two columns about the containers of a pod template."""
    find = field(*pod_template, "spec", "containers", default=())

    def joined(key: str) -> Callable[[Subject], str]:
        return lambda it: ",".join(container.get(key, "") for container in find(it))

    return (
        Column("Containers", joined("name"), "Names of the template's containers.", priority=priority),
        Column("Images", joined("image"), "Images of the template's containers.", priority=priority),
    )
