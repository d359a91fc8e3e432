"""The rows that were recorded from the real kubelet; `tests/golden/README-node.md` says how to read them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.conftest import GOLDEN

Row = dict[str, Any]

_CONDITIONS = re.compile(r"condition: \[([^]]*)\]")


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
    """What may be answered, normalised: one of several where the kubelet itself leaves it to chance."""
    answers = row["expectOneOf"] if row.get("byChance") else [row["expect"]]
    return [normalised(variant) for answer in answers for variant in _variants(answer)]


def _variants(answer: Any) -> list[Any]:
    """The answer with each of its texts, if it has several."""
    if not isinstance(answer, dict) or "messageOneOf" not in answer:
        return [answer]
    rest = {key: value for key, value in answer.items() if key != "messageOneOf"}
    return [{**rest, "message": text} for text in answer["messageOneOf"]]


def normalised(answer: Any) -> Any:
    """The answer with the conditions of its texts sorted, for a kubelet lists them as they come out of a hash table."""
    if isinstance(answer, str):
        return _CONDITIONS.sub(lambda found: f"condition: [{' '.join(sorted(found[1].split()))}]", answer)
    if isinstance(answer, list):
        return [normalised(each) for each in answer]
    if isinstance(answer, dict):
        return {key: normalised(value) for key, value in _variants(answer)[0].items()}
    return answer


def with_uids(pods: list[Row]) -> list[Row]:
    """The pods of a row; they have no uid, but their names are unique."""
    return [{**pod, "metadata": {**pod["metadata"], "uid": pod["metadata"]["name"]}} for pod in pods]
