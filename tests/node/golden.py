"""The rows that were recorded from the real kubelet; `tests/golden/README-node.md` says how to read them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import GOLDEN

Row = dict[str, Any]


def read(table: str) -> list[Row]:
    """The rows of a table."""
    with (GOLDEN / "node" / f"{table}.yaml").open() as file:
        entries: list[Row] = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return entries


def rows(table: str) -> pytest.MarkDecorator:
    """Runs a test once for every row of a table, by its id."""
    return each_of(read(table))


def each_of(entries: list[Row]) -> pytest.MarkDecorator:
    """The same of some rows of a table."""
    return pytest.mark.parametrize("row", entries, ids=lambda row: row["id"])


def expected(row: Row) -> list[Any]:
    """What may be answered: one of several where the kubelet itself leaves it to chance."""
    return list(row["expectOneOf"]) if row.get("byChance") else [row["expect"]]


def with_uids(pods: list[Row]) -> list[Row]:
    """The pods of a row; they have no uid, but their names are unique."""
    return [{**pod, "metadata": {**pod["metadata"], "uid": pod["metadata"]["name"]}} for pod in pods]
