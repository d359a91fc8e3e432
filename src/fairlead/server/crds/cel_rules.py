"""Validation rules of custom resources (`x-kubernetes-validations`): compiled with the schema, asked of values.

Source: apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go (1.36). A rule that reads `oldSelf`
is asked of changes alone; any other is not asked of a part that is as it was (KEP-4008).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.api.fields import Errors, under
from fairlead.api.objects import Obj
from fairlead.cel.environment import Environment, Program, WrongTypeError
from fairlead.cel.errors import CelError, CompileError, TooCostlyError
from fairlead.cel.schema import Reader, declared, reader
from fairlead.cel.scope import Meter
from fairlead.cel.types import BOOL, DYN, STRING, Type, optional_of
from fairlead.cel.values import NONE, some
from fairlead.server.crds import internal
from fairlead.server.crds.paths import field_at
from fairlead.server.crds.schema import ABSENT, each_schema
from fairlead.server.crds.values import Problems, number_text

KEYWORD: Final = "x-kubernetes-validations"
#: What all rules may cost for one object. Upstream allows ten times as much: that would hold the loop for seconds.
OBJECT_BUDGET: Final = 1_000_000
#: How many characters the expressions of one definition may have together: to compile them must not hold it either.
MOST_CHARACTERS: Final = 50_000
_LONGEST_MESSAGE: Final = 5_120
_REASONS: Final = {
    "FieldValueForbidden": "Forbidden: {}",
    "FieldValueRequired": "Required value: {}",
    "FieldValueDuplicate": "Duplicate value",
}


@dataclass(frozen=True, slots=True)
class _Rule:
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


@dataclass(slots=True)
class RuleNode:
    """The rules about one place, and the places below it that have any."""

    rules: list[_Rule] = field(default_factory=list)
    read: Reader | None = None
    properties: dict[str, RuleNode] = field(default_factory=dict)
    items: RuleNode | None = None
    values: RuleNode | None = None
    list_keys: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.rules or self.properties or self.items or self.values)


# -- compilation


def compile_rules(schema: Obj, *, is_root: bool = True) -> RuleNode | None:
    """The rules of a valid schema; None if it has none."""
    node = RuleNode(read=reader(schema), list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()))
    environments = _Environments(schema, is_root)
    for rule in schema.get(KEYWORD) or ():
        program, message = environments.compile(rule)
        node.rules.append(_made(rule, program, message, schema))
    for key, below in (schema.get("properties") or {}).items():
        if (found := compile_rules(below, is_root=False)) is not None:
            node.properties[key] = found
    if isinstance(items := schema.get("items"), dict):
        node.items = compile_rules(items, is_root=False)
    if isinstance(values := schema.get("additionalProperties"), dict):
        node.values = compile_rules(values, is_root=False)
    return None if node.is_empty else node


def _made(rule: Mapping[str, Any], program: Program, message: Program | None, schema: Obj) -> _Rule:
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


class _Environments:
    """The variables of the rules about one place."""

    def __init__(self, schema: Obj, is_root: bool) -> None:
        self._schema, self._is_root = schema, is_root
        self._made: dict[bool, Environment] = {}

    def compile(self, rule: Mapping[str, Any]) -> tuple[Program, Program | None]:
        """The programs of a rule and of its message. CompileError and WrongTypeError say what is wrong."""
        environment = self._environment(bool(rule.get("optionalOldSelf")))
        program = environment.compile(rule["rule"], BOOL)
        text = rule.get("messageExpression")
        return program, environment.compile(text, STRING) if text else None

    def _environment(self, takes_optional_old: bool) -> Environment:
        found = self._made.get(takes_optional_old)
        if found is None:
            type_: Type = declared(self._schema, is_root=self._is_root) or DYN
            old = optional_of(type_) if takes_optional_old else type_
            found = self._made[takes_optional_old] = Environment({"self": type_, "oldSelf": old})
        return found


def are_too_long(schemas: Iterable[Obj]) -> bool:
    """Whether the expressions in these schemas are more than are compiled."""
    rules = [rule for schema in schemas for node in each_schema(schema) for rule in node.get(KEYWORD) or ()]
    return sum(len(rule.get("rule", "")) + len(rule.get("messageExpression") or "") for rule in rules) > MOST_CHARACTERS


def check_rules(schema: Obj, path: str, errors: Errors, *, is_root: bool = True, uncorrelatable: str = "") -> None:
    """Add everything that does not compile in a structural schema whose rules have a valid form."""
    environments = _Environments(schema, is_root)
    for index, rule in enumerate(schema.get(KEYWORD) or ()):
        _check(environments, rule, f"{path}.{KEYWORD}[{index}]", uncorrelatable, errors)
    if isinstance(values := schema.get("additionalProperties"), dict):
        here = under(path, ".additionalProperties")
        check_rules(values, here, errors, is_root=False, uncorrelatable=uncorrelatable)
    for key, below in (schema.get("properties") or {}).items():
        here = under(path, f".properties[{key}]")
        check_rules(below, here, errors, is_root=False, uncorrelatable=uncorrelatable)
    if isinstance(items := schema.get("items"), dict):
        here = under(path, ".items")
        is_lost = schema.get("x-kubernetes-list-type") != "map"
        lost = uncorrelatable or (here if is_lost else "")
        check_rules(items, here, errors, is_root=False, uncorrelatable=lost)


def _check(
    environments: _Environments, rule: Mapping[str, Any], path: str, uncorrelatable: str, errors: Errors
) -> None:
    spelled = internal.spelled_rule(rule)
    try:
        program, _ = environments.compile({**rule, "messageExpression": None})
    except CompileError as error:
        errors.invalid(f"{path}.rule", spelled, f"{error.step}: {error}")
    except WrongTypeError:
        errors.invalid(f"{path}.rule", spelled, "cel expression must evaluate to a bool")
    else:
        if "oldSelf" in program.names and uncorrelatable:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            errors.invalid(f"{path}.rule", rule["rule"], text)
        if "oldSelf" not in program.names and rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            errors.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], text)
    if rule.get("messageExpression"):
        try:
            environments.compile({**rule, "rule": "true"})
        except CompileError as error:
            step = error.step.removeprefix("program ")
            errors.invalid(f"{path}.messageExpression", spelled, f"messageExpression {step}: {error}")
        except WrongTypeError:
            errors.invalid(f"{path}.messageExpression", spelled, "messageExpression must evaluate to a string")


# -- evaluation


def ask(node: RuleNode, value: Any, old: Any, found: Problems) -> None:
    """Add what the rules object to in a value; `old` is what it was, or ABSENT."""
    asking = _Asking(found, Meter(OBJECT_BUDGET))
    with suppress(TooCostlyError):  # said where it happened
        asking.ask(node, value, old, "")


class _Asking:
    """One object being asked; all rules share what they may cost."""

    def __init__(self, found: Problems, meter: Meter) -> None:
        self._found, self._meter = found, meter

    def ask(self, node: RuleNode, value: Any, old: Any, path: str) -> None:
        if value is None:
            return
        if node.rules:
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
        is_same = old is not None and old == value
        read = node.read or _as_it_is
        try:
            current, before = read(value), old if old is None else read(old)
        except CelError as error:  # a text that is not of its format, which only warns of that
            self._report("FieldValueInvalid", path, f"Invalid value: {error} evaluating rule: {node.rules[0].name}")
            return
        variables = {"self": current, "oldSelf": before}
        optional = {"self": current, "oldSelf": NONE if old is None else some(before)}
        for rule in node.rules:
            if rule.reads_old and old is None and not rule.takes_optional_old:
                continue
            if is_same and not rule.reads_old:
                continue
            self._ask_rule(rule, optional if rule.takes_optional_old else variables, path)

    def _ask_rule(self, rule: _Rule, variables: Mapping[str, Any], path: str) -> None:
        try:
            holds = rule.program.metered(variables, self._meter)
        except TooCostlyError as error:
            text = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._report("FieldValueInvalid", path, f"Invalid value: '{error}': {text}: {rule.name}")
            raise
        except CelError as error:
            if str(error).startswith("no such overload"):
                text = "call arguments did not match a supported operator, function or macro signature for rule"
                told = f"'{error}': {text}: {rule.name}"
            else:
                told = f"{error} evaluating rule: {rule.name}"
            self._report("FieldValueInvalid", path, f"Invalid value: {told}")
            return
        if holds is not True:
            text = _REASONS.get(rule.reason, "Invalid value: {}").format(self._message(rule, variables))
            self._report(rule.reason, path + rule.field, text)

    def _report(self, reason: str, path: str, text: str) -> None:
        self._found.report(reason, path, text)

    def _message(self, rule: _Rule, variables: Mapping[str, Any]) -> str:
        """What its expression says, if that is one line; else its message."""
        if rule.message_program is None:
            return rule.message
        try:
            text = str(rule.message_program.metered(variables, self._meter)).strip()
        except CelError:
            return rule.message
        return text if text and "\n" not in text and len(text) <= _LONGEST_MESSAGE else rule.message


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
