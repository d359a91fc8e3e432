"""What the table holds, in fragments, and the transaction that changes one state into another.

Thousands of services share a table, and one of them changes: only its fragment is made anew, and only what differs is
written. A fragment owns its chains and sets; elements of the maps that all share are claimed: where two fragments claim
the same key with different values (two services with one external address), the first by name has it, and the kernel
never refuses a whole transaction for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

TABLE: Final = "ip fairlead"

#: Longer names of chains and sets are cut; nft takes 128 characters.
_LONGEST_NAME: Final = 100
#: The kernel takes any number at once, but each line of text is held in memory by nft.
_ELEMENTS_PER_LINE: Final = 2000


class Key(NamedTuple):
    """A key of a shared map or set."""

    map: str
    key: str


class NamedSet(msgspec.Struct, frozen=True):
    """A set of a fragment's own; what the kernel adds to it by itself is none of our elements."""

    declaration: str
    elements: frozenset[str] = frozenset()


class Fragment(msgspec.Struct, frozen=True):
    chains: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    sets: Mapping[str, NamedSet] = msgspec.field(default_factory=dict)
    #: What the key leads to; nothing in a set.
    elements: Mapping[Key, str] = msgspec.field(default_factory=dict)


NOTHING: Final = Fragment()


def name(*parts: object) -> str:
    """The name of a chain or set; what is too long ends with a digest of it."""
    text = "/".join(map(str, parts))
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[: _LONGEST_NAME - 17]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class Table:
    """`change` and `load` return texts for `nft -f`; whoever fails to write one must `load` next."""

    def __init__(self, base: str, base_chains: str) -> None:
        """The base: shared maps and sets (after which come fragments), and the chains that use them."""
        self._base, self._base_chains = base, base_chains
        self._fragments: dict[str, Fragment] = {}
        self._claims: dict[Key, dict[str, str]] = {}

    def load(self) -> str:
        """The whole table, in place of whatever was there."""
        changes = _Changes()
        for fragment in self._fragments.values():
            changes.fragment(NOTHING, fragment)
        for key in self._claims:
            changes.element(key, None, self._value(key))
        start = [f"add table {TABLE}", f"delete table {TABLE}", f"add table {TABLE}", self._base]
        return "\n".join([*start, *changes.lines(), self._base_chains, ""])

    def change(self, fragments: Mapping[str, Fragment]) -> str:
        """Put these in the place of those of their names (NOTHING: they go). Empty if that makes no difference."""
        changes = _Changes()
        before: dict[Key, str | None] = {}
        for owner, new in fragments.items():
            old = self._fragments.get(owner, NOTHING)
            if old == new:
                continue
            changes.fragment(old, new)
            for key in {**old.elements, **new.elements}:
                before.setdefault(key, self._value(key))
            self._claim(owner, old, new)
        for key, value in before.items():
            changes.element(key, value, self._value(key))
        return "\n".join([*changes.lines(), ""]) if changes.lines() else ""

    def _claim(self, owner: str, old: Fragment, new: Fragment) -> None:
        for key in old.elements:
            claims = self._claims[key]
            del claims[owner]
            if not claims:
                del self._claims[key]
        for key, value in new.elements.items():
            self._claims.setdefault(key, {})[owner] = value
        if new == NOTHING:
            self._fragments.pop(owner, None)
        else:
            self._fragments[owner] = new

    def _value(self, key: Key) -> str | None:
        claims = self._claims.get(key)
        return claims[min(claims)] if claims else None


class _Changes:
    """Commands in the order in which none refers to what is not there yet, or is gone already."""

    def __init__(self) -> None:
        self._declared: list[str] = []
        self._removed: dict[str, list[str]] = {}
        self._rules: list[str] = []
        self._added: dict[str, list[str]] = {}
        self._deleted: list[str] = []

    def fragment(self, old: Fragment, new: Fragment) -> None:
        self._sets(old.sets, new.sets)
        for chain, rules in new.chains.items():
            known = old.chains.get(chain)
            if known is None:
                self._declared.append(f"add chain {TABLE} {chain}")
            elif known != rules:
                self._rules.append(f"flush chain {TABLE} {chain}")
            if known != rules:
                self._rules += [f"add rule {TABLE} {chain} {rule}" for rule in rules]
        gone = [chain for chain in old.chains if chain not in new.chains]
        self._rules += [f"flush chain {TABLE} {chain}" for chain in gone]  # they may refer to each other
        self._deleted[:0] = [f"delete chain {TABLE} {chain}" for chain in gone]

    def _sets(self, old: Mapping[str, NamedSet], new: Mapping[str, NamedSet]) -> None:
        for set_name, wanted in new.items():
            known = old.get(set_name)
            if known is None:
                self._declared.append(f"add set {TABLE} {set_name} {{ {wanted.declaration} }}")
                known = NamedSet(wanted.declaration)
            elif known.declaration != wanted.declaration:
                raise ValueError(f"{set_name}: a set with another declaration needs another name")
            self._list(self._removed, set_name, known.elements - wanted.elements)
            self._list(self._added, set_name, wanted.elements - known.elements)
        self._deleted += [f"delete set {TABLE} {set_name}" for set_name in old if set_name not in new]

    def element(self, key: Key, old: str | None, new: str | None) -> None:
        if old == new:
            return
        if old is not None:
            self._list(self._removed, key.map, [key.key])
        if new is not None:
            self._list(self._added, key.map, [f"{key.key} : {new}" if new else key.key])

    @staticmethod
    def _list(where: dict[str, list[str]], set_name: str, elements: Iterable[str]) -> None:
        where.setdefault(set_name, []).extend(sorted(elements))

    def lines(self) -> list[str]:
        removed, added = _elements("delete", self._removed), _elements("add", self._added)
        return [*self._declared, *removed, *self._rules, *added, *self._deleted]


def _elements(verb: str, by_set: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{verb} element {TABLE} {set_name} {{ {', '.join(elements[start : start + _ELEMENTS_PER_LINE])} }}"
        for set_name, elements in by_set.items()
        for start in range(0, len(elements), _ELEMENTS_PER_LINE)
    ]
