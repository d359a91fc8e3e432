"""Validation rules of custom resources, when the definition is written: they must compile, and not cost too much.

Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.api.fields import Errors, under
from fairlead.api.objects import Obj
from fairlead.cel.environment import Program, WrongTypeError
from fairlead.cel.errors import CompileError
from fairlead.cel.sizes import bounded, place_of
from fairlead.server.crds import internal
from fairlead.server.crds.cel_rules import KEYWORD, RuleCompiler
from fairlead.server.crds.rule_costs import SchemaCost, check_rule, times_below, times_in_request
from fairlead.server.crds.schema import each_schema

#: How many characters the expressions of one definition may have together: to compile them takes seconds.
MOST_CHARACTERS: Final = 200_000


def are_too_long(schemas: Iterable[Obj]) -> bool:
    """Whether the expressions in these schemas are more than are compiled."""
    rules = [rule for schema in schemas for node in each_schema(schema) for rule in node.get(KEYWORD) or ()]
    return sum(len(rule.get("rule", "")) + len(rule.get("messageExpression") or "") for rule in rules) > MOST_CHARACTERS


def check_rules(schema: Obj, path: str, errors: Errors, *, is_known: bool) -> None:
    """Add everything that is wrong with the rules of a structural schema, whose form is valid.

    Of a schema that was there before, single rules may cost what they like: limits may have changed.
    """
    checking = _Checking(errors, is_known)
    checking.check(schema, path, is_root=True, times=1, uncorrelatable="")
    checking.costs.check(path, errors)


class _Checking:
    """One schema being checked, from the leaves up."""

    def __init__(self, errors: Errors, is_known: bool) -> None:
        self.costs = SchemaCost()
        self._errors, self._is_known = errors, is_known

    def check(self, schema: Obj, path: str, *, is_root: bool, times: int | None, uncorrelatable: str) -> None:
        below = times_below(schema, times)
        if isinstance(values := schema.get("additionalProperties"), dict):
            here = under(path, ".additionalProperties")
            self.check(values, here, is_root=False, times=below, uncorrelatable=uncorrelatable)
        for key, property_ in (schema.get("properties") or {}).items():
            here = under(path, f".properties[{key}]")
            self.check(property_, here, is_root=False, times=below, uncorrelatable=uncorrelatable)
        if isinstance(items := schema.get("items"), dict):
            here = under(path, ".items")
            lost = uncorrelatable or ("" if schema.get("x-kubernetes-list-type") == "map" else here)
            self.check(items, here, is_root=False, times=below, uncorrelatable=lost)
        if schema.get(KEYWORD):
            self._check_here(schema, path, is_root=is_root, times=times, uncorrelatable=uncorrelatable)

    def _check_here(self, schema: Obj, path: str, *, is_root: bool, times: int | None, uncorrelatable: str) -> None:
        compiler, place = RuleCompiler(schema, is_root), place_of(schema, is_root=is_root)
        for index, rule in enumerate(schema[KEYWORD]):
            here = f"{path}.{KEYWORD}[{index}]"
            program = self._rule(compiler, rule, here)
            if program is not None and place is not None:
                often = times_in_request(place) if times is None else times
                self._cost("rule", bounded(program.estimated_cost(place) * often), here)
            if program is not None and rule.get("messageExpression"):
                message = self._message(compiler, rule, here)
                if message is not None and place is not None:
                    self._cost("messageExpression", message.estimated_cost(place), here)
            self._check_old(rule, program, here, uncorrelatable)

    def _cost(self, name: str, cost: int, path: str) -> None:
        if not self._is_known:
            check_rule(f"estimated {name} cost", cost, f"{path}.{name}", self._errors)
        self.costs.note(cost, f"{path}.{name}")

    def _rule(self, compiler: RuleCompiler, rule: Mapping[str, Any], path: str) -> Program | None:
        spelled = internal.spelled_rule(rule)
        try:
            return compiler.rule(rule)
        except CompileError as error:
            self._errors.invalid(f"{path}.rule", spelled, f"{error.step}: {error}")
        except WrongTypeError:
            self._errors.invalid(f"{path}.rule", spelled, "cel expression must evaluate to a bool")
        return None

    def _message(self, compiler: RuleCompiler, rule: Mapping[str, Any], path: str) -> Program | None:
        here, spelled = f"{path}.messageExpression", internal.spelled_rule(rule)
        try:
            return compiler.message(rule)
        except CompileError as error:
            self._errors.invalid(here, spelled, f"messageExpression {error.step.removeprefix('program ')}: {error}")
        except WrongTypeError:
            self._errors.invalid(here, spelled, "messageExpression must evaluate to a string")
        return None

    def _check_old(self, rule: Mapping[str, Any], program: Program | None, path: str, uncorrelatable: str) -> None:
        reads_old = program is not None and "oldSelf" in program.names
        if reads_old and uncorrelatable:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            self._errors.invalid(f"{path}.rule", rule["rule"], text)
        if not reads_old and rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            self._errors.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], text)
