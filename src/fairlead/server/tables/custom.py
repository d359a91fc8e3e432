"""Custom kinds, by the printer columns of their definition."""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.server.tables.base import Subject
from fairlead.server.tables.columns import Columns


class CustomPrinter:
    """Prints the objects of one version of a CustomResourceDefinition."""

    def __init__(self, crd: Obj, version: str) -> None:
        served = (candidate for candidate in crd["spec"]["versions"] if candidate["name"] == version)
        self._columns = Columns(next(served, {}))

    @property
    def columns(self) -> list[Obj]:
        return self._columns.definitions

    def rows(self, obj: Obj, now: float) -> list[Obj]:
        return [{"cells": self._columns.cells(obj, Subject(obj, now).since)}]
