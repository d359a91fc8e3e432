"""The tree that ConsumerGroups make by naming their parents, and what is no tree: circles, and what is too deep.

Where nobody reviews what is written (a real cluster without the webhook), groups may name each other as they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: How many groups may lie within each other. What a namespace deserves is worked out level by level.
MOST_LEVELS: Final = 32


class GroupTree:
    """Takes linear time, whatever names whom."""

    def __init__(self, named: Mapping[str, str]) -> None:
        """`named`: the parent that each group names, if any.

        At the top are those that name none, or one that there is not; of a circle the first by name; and those that
        would be deeper than `MOST_LEVELS`.
        """
        self.parents = {name: parent if parent in named else "" for name, parent in sorted(named.items())}
        self._children: dict[str, list[str]] = {name: [] for name in ("", *self.parents)}
        self._levels: dict[str, int] = {}
        for name, parent in self.parents.items():
            self._children[parent].append(name)
        self._number(list(self._children[""]))
        for name in self.parents:
            if name not in self._levels:
                first = min(circle_of(name, self.parents))
                self._put_at_the_top(first)
                self._number([first])

    def below(self, name: str) -> Iterable[str]:
        """The groups whose parent this is; of the cluster itself for an empty name."""
        return self._children[name]

    def above(self, name: str) -> list[str]:
        """The group itself, that of this group, and so on."""
        found = list[str]()
        while name:
            found.append(name)
            name = self.parents[name]
        return found

    def level(self, name: str) -> int:
        """1 at the top; 0 if there is no such group."""
        return self._levels.get(name, 0)

    def height(self, name: str) -> int:
        """How many levels it takes up with those below; 1 for a group without any."""
        found, level = 0, [name]
        while level:
            found, level = found + 1, [child for each in level for child in self._children[each]]
        return found

    def _number(self, level: list[str]) -> None:
        """Number the levels from these groups at the top downwards."""
        number = 1
        while level:
            self._levels.update(dict.fromkeys(level, number))
            level = [child for name in level for child in self._children[name]]
            number += 1
            if number > MOST_LEVELS:
                for name in level:
                    self._put_at_the_top(name)
                number = 1

    def _put_at_the_top(self, name: str) -> None:
        self._children[self.parents[name]].remove(name)
        self._children[""].append(name)
        self.parents[name] = ""


def circle_of(name: str, parents: Mapping[str, str]) -> list[str]:
    """The circle to which the parents of this group lead, in the order in which they name each other; or nothing."""
    numbers: dict[str, int] = {}
    while name and name not in numbers:
        numbers[name] = len(numbers)
        name = parents.get(name, "")
    return list(numbers)[numbers[name] :] if name else []
