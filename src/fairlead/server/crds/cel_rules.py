"""Validation rules of custom resources (`x-kubernetes-validations`): compiled with the schema, asked of values.

Source: apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go (1.36). A rule that reads `oldSelf`
is asked of changes alone; any other is not asked of a part that is as it was (KEP-4008).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.cel.environment import PER_CALL_LIMIT, Environment, Program, WrongTypeError
from fairlead.cel.errors import CelError, CompileError, TooCostlyError
from fairlead.cel.schema import Reader, declared, escaped, reader
from fairlead.cel.scope import Meter, Read
from fairlead.cel.sizes import MOST, Place, bounded
from fairlead.cel.types import BOOL, DYN, STRING, Type, optional_of
from fairlead.cel.values import NONE, some
from fairlead.golang.quoting import go_quote
from fairlead.server.crds.paths import field_at
from fairlead.server.crds.schema import ABSENT
from fairlead.server.crds.values import Problems, number_text, printed

KEYWORD: Final = "x-kubernetes-validations"
#: What all rules may cost for one object (k8s.io/apiserver/pkg/apis/cel, `RuntimeCELCostBudget`).
OBJECT_BUDGET: Final = 10_000_000
_LONGEST_MESSAGE: Final = 5_120


class _Rule(msgspec.Struct, frozen=True):
    program: Program
    message_program: Program | None
    #: What is told if the rule does not hold, and how it is named if it cannot be asked.
    message: str
    name: str
    reason: str
    field: str
    takes_optional_old: bool

    @property
    def reads_old(self) -> bool:
        return "oldSelf" in self.program.names


class RuleNode(msgspec.Struct):
    """The rules about one place, and the places below it that have any."""

    type: str = ""
    rules: list[_Rule] = msgspec.field(default_factory=list)
    #: What is wrong with rules that were stored by a release that compiled them.
    broken: list[str] = msgspec.field(default_factory=list)
    read: Reader | None = None
    properties: dict[str, RuleNode] = msgspec.field(default_factory=dict)
    items: RuleNode | None = None
    values: RuleNode | None = None
    list_keys: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.rules or self.broken or self.properties or self.items or self.values)


# -- compilation


def compile_rules(schema: Obj, *, is_root: bool = True) -> RuleNode | None:
    """The rules of a valid schema; None if it has none."""
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    node = RuleNode(schema.get("type") or "", read=reader(schema), list_keys=keys)
    compiler = RuleCompiler(schema, is_root)
    for rule in schema.get(KEYWORD) or ():
        try:
            node.rules.append(_made(rule, compiler, schema))
        except (CompileError, WrongTypeError) as error:
            node.broken.append(f"rule compile error: {error}")
    for key, below in (schema.get("properties") or {}).items():
        if (found := compile_rules(below, is_root=False)) is not None:
            node.properties[key] = found
    if isinstance(items := schema.get("items"), dict):
        node.items = compile_rules(items, is_root=False)
    if isinstance(values := schema.get("additionalProperties"), dict):
        node.values = compile_rules(values, is_root=False)
    return None if node.is_empty else node


def cost_in(place: Place | None, node: RuleNode, times: int = 1) -> int:
    """What the rules could cost together where values are as large as is declared there."""
    if place is None or place.most is None:
        return MOST  # a name that expressions cannot spell: nobody knows
    total = sum(rule.program.estimated_cost(place) for rule in node.rules) * times
    for key, below in node.properties.items():
        total += cost_in(place.below.get(escaped(key) or ""), below, times)
    for key, elements in (("@items", node.items), ("@values", node.values)):
        if elements is not None:
            total += cost_in(place.below.get(key), elements, times * place.most)
    return bounded(total)


def _made(rule: Mapping[str, Any], compiler: RuleCompiler, schema: Obj) -> _Rule:
    program, message = compiler.rule(rule), compiler.message(rule) if rule.get("messageExpression") else None
    text, source = (rule.get("message") or "").strip(), rule["rule"].strip()
    path = "".join(f".{key}" for key in field_at(rule["fieldPath"], schema)[0]) if rule.get("fieldPath") else ""
    return _Rule(
        program,
        message,
        text or f"failed rule: {source}",
        text or source,
        rule.get("reason") or "FieldValueInvalid",
        path,
        bool(rule.get("optionalOldSelf")),
    )


class RuleCompiler:
    """Compiles the rules about one place. CompileError and WrongTypeError say what is wrong."""

    def __init__(self, schema: Obj, is_root: bool) -> None:
        self._schema, self._is_root = schema, is_root
        self._made: dict[bool, Environment] = {}

    def rule(self, rule: Mapping[str, Any]) -> Program:
        return self._environment(rule).compile(rule["rule"], BOOL)

    def message(self, rule: Mapping[str, Any]) -> Program:
        return self._environment(rule).compile(rule["messageExpression"], STRING)

    def _environment(self, rule: Mapping[str, Any]) -> Environment:
        takes_optional_old = bool(rule.get("optionalOldSelf"))
        found = self._made.get(takes_optional_old)
        if found is None:
            type_: Type = declared(self._schema, is_root=self._is_root) or DYN
            old = optional_of(type_) if takes_optional_old else type_
            found = self._made[takes_optional_old] = Environment({"self": type_, "oldSelf": old})
        return found


# -- evaluation


class _Exhausted(Exception):
    """Nothing more is asked."""


def ask(node: RuleNode, value: Any, old: Any, found: Problems) -> None:
    """Add what the rules object to in a value; `old` is what it was, or ABSENT."""
    with suppress(_Exhausted):  # said where it happened
        _Asking(found).ask(node, value, old, "")


def ask_alone(values: Iterable[tuple[RuleNode, Any, str]], found: Problems) -> None:
    """Ask about values at their paths that no object has yet, all together within the budget of one.

    What rules say about a change is asked as if nothing changed.
    """
    asking = _Asking(found)
    with suppress(_Exhausted):
        for node, value, path in values:
            for old in (value, ABSENT):
                asking.ask(node, value, old, path)


class _Asking:
    """One object being asked; all rules share what they may cost, beside what each may."""

    def __init__(self, found: Problems) -> None:
        self._found, self._left = found, OBJECT_BUDGET
        self._read: Read = {}

    def ask(self, node: RuleNode, value: Any, old: Any, path: str) -> None:
        if value is None:
            return
        if node.rules or node.broken:
            self._ask_here(node, value, None if old is ABSENT else old, path)
        if isinstance(value, dict):
            was = old if isinstance(old, dict) else {}
            for key, below in node.properties.items():
                if key in value:
                    self.ask(below, value[key], was.get(key, ABSENT), f"{path}.{key}")
            if node.values is not None:
                for key, item in value.items():
                    self.ask(node.values, item, was.get(key, ABSENT), f"{path}[{key}]")
        elif isinstance(value, list) and node.items is not None:
            counterparts = _Counterparts(node.list_keys, old)
            for index, item in enumerate(value):
                self.ask(node.items, item, counterparts.of(item), f"{path}[{index}]")

    def _ask_here(self, node: RuleNode, value: Any, old: Any, path: str) -> None:
        for text in node.broken:
            self._found.invalid(path, node.type, text)
        is_same = old is not None and old == value
        read = node.read or _as_it_is
        try:
            current, before = read(value), old if old is None else read(old)
        except CelError as error:  # a text that is not of its format, which only warns of that
            for rule in node.rules:
                self._found.invalid(path, node.type, f"{error} evaluating rule: {rule.name}")
            return
        variables = {"self": current, "oldSelf": before}
        optional = {"self": current, "oldSelf": NONE if old is None else some(before)}
        for rule in node.rules:
            if rule.reads_old and old is None and not rule.takes_optional_old:
                continue
            if is_same and not rule.reads_old:
                continue
            seen = optional if rule.takes_optional_old else variables
            if not self._holds(rule, seen, node.type, path):
                self._refuse(rule, seen, node.type, value, path)

    def _holds(self, rule: _Rule, variables: Mapping[str, Any], type_: str, path: str) -> bool:
        """Whether a rule holds; also true of one that cannot be asked, which is reported."""
        try:
            return self._evaluated(rule.program, variables, type_, path) is True
        except TooCostlyError as error:
            text = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._found.invalid(path, type_, f"'{error}': {text}: {rule.name}")
            raise _Exhausted from None
        except CelError as error:
            told = f"{error} evaluating rule: {rule.name}"
            if str(error).startswith("no such overload"):
                text = "call arguments did not match a supported operator, function or macro signature for rule"
                told = f"'{error}': {text}: {rule.name}"
            self._found.invalid(path, type_, told)
        return True

    def _evaluated(self, program: Program, variables: Mapping[str, Any], type_: str, path: str, what: str = "") -> Any:
        """What an expression is worth. Raises CelError, and `_Exhausted` if all together have cost too much."""
        meter = Meter(PER_CALL_LIMIT, self._read)
        try:
            return program.metered(variables, meter)
        finally:
            self._left -= PER_CALL_LIMIT - max(0, meter.left)
            if self._left < 0:
                text = "failed due to running out of cost budget, no further validation rules will be run"
                self._found.invalid(path, type_, f"{what or 'validation'} {text}")
                raise _Exhausted

    def _refuse(self, rule: _Rule, variables: Mapping[str, Any], type_: str, value: Any, path: str) -> None:
        here, text = path + rule.field, rule.message
        if rule.message_program is not None:
            text = self._message(rule, rule.message_program, variables, type_, here)
        is_shown = type_ not in ("object", "array")
        match rule.reason:
            case "FieldValueForbidden":
                self._found.report(rule.reason, here, f"Forbidden: {text}")
            case "FieldValueRequired":
                self._found.report(rule.reason, here, f"Required value: {text}")
            case "FieldValueDuplicate":
                shown = f": {printed(value)}" if is_shown else ""
                self._found.report(rule.reason, here, f"Duplicate value{shown}")
            case _ if is_shown:
                self._found.invalid(here, value, text)
            case _:
                self._found.report(rule.reason, here, f"Invalid value: {text}")

    def _message(self, rule: _Rule, program: Program, variables: Mapping[str, Any], type_: str, path: str) -> str:
        """What its expression says, if that is one line; else its message."""
        try:
            text = str(self._evaluated(program, variables, type_, path, "messageExpression evaluation")).strip()
        except TooCostlyError:
            text = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            self._found.invalid(path, type_, f"{text}: {go_quote(program.source)}")
            raise _Exhausted from None
        except CelError:
            return rule.message
        return text if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE else rule.message


def _as_it_is(value: Any) -> Any:
    return value


class _Counterparts:
    """What the items of a list were: in a list of type map the item with the same keys, else nobody knows."""

    def __init__(self, keys: tuple[str, ...], old: Any) -> None:
        self._keys = keys
        self._old = {self._key(item): item for item in old} if keys and isinstance(old, list) else {}

    def of(self, item: Any) -> Any:
        return self._old.get(self._key(item), ABSENT) if self._old else ABSENT

    def _key(self, item: Any) -> tuple[str, ...]:
        if not isinstance(item, dict):
            return ()
        return tuple(
            number_text(found) if isinstance(found := item.get(key), float) else repr(found) for key in self._keys
        )
