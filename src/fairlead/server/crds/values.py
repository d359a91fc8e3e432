"""Validation of values against a schema: types, bounds, patterns, enums, allOf and friends.

People meet these texts whenever a custom object is wrong, so they are those of k8s.io/kube-openapi/pkg/validation
(behaviour of 1.36), down to which alternative of an `anyOf` is reported: the one that had most checks pass.

A change is validated with ratcheting (KEP-4008): a part that equals the same part of the old object is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.errors import Cause, Causes
from fairlead.api.fields import HTML, under
from fairlead.golang.patterns import BadPattern, compile_pattern
from fairlead.golang.quoting import go_quote
from fairlead.server.crds import formats
from fairlead.server.crds.schema import ABSENT

#: What names the type of an object at its root: not changed by who asks in another version, so always asked.
_TYPE_META: Final = frozenset(("apiVersion", "kind"))
_INT32 = range(-(2**31), 2**31)
#: The largest integer up to which a float tells all of them apart.
_MOST_EXACT = 2**53 - 1
_sorted_json = msgspec.json.Encoder(order="sorted").encode


def printed(value: Any) -> str:
    """A value as a field error shows it: Go's JSON sorts the keys of maps."""
    return go_quote(value) if isinstance(value, str) else _sorted_json(value).decode().translate(HTML)


def number_text(value: float) -> str:
    """Go's `%v` of a float64; whole numbers have no point."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


#: How many things a value is asked in one validation: conditions of a schema multiply with the items of a list.
_MOST_STEPS: Final = 1_000_000
#: What trying an alternative costs more than other steps do.
_STEPS_OF_A_TRY: Final = 9
#: How many instructions of a pattern are tried at characters in the time of a step.
_MATCHES_OF_A_STEP: Final = 256


#: Stands for what there is no room for.
_UNTOLD: Final = Cause("FieldValueInvalid", "", "")


class _TooCostlyError(Exception):
    """A validation takes too many steps."""


class _StepBudget:
    """How many steps a validation may still take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MOST_STEPS

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _TooCostlyError


class Problems(Causes):
    """What is wrong with a value, each thing once, named by its field."""

    def __init__(self, base: str = "", steps: _StepBudget | None = None) -> None:
        super().__init__()
        self.base = base
        self.steps = steps or _StepBudget()
        self._known: set[Cause] = set()

    def report(self, reason: str, path: str, message: str) -> None:
        if not self.has_room:
            self.append(_UNTOLD)
            return
        below = path.removeprefix(".")
        # Go prints the path of an error that belongs to no field as "<nil>".
        field = f"{self.base}.{below}" if self.base and below else self.base or below or "<nil>"
        self.merge([Cause(reason, message, field)])

    def invalid(self, path: str, value: Any, text: str) -> None:
        shown = printed("" if value is None else value) if self.has_room else ""
        self.report("FieldValueInvalid", path, f"Invalid value: {shown}: {text}")

    def wrong_type(self, path: str, value: str, type_: str) -> None:
        text = f"{path} in body must be of type {type_}: {go_quote(value)}"
        self.report("FieldValueTypeInvalid", path, f"Invalid value: {go_quote(value)}: {text}")

    def rule(self, text: str) -> None:
        """An error about alternatives: it names its path in the text and has no field."""
        self.merge([Cause("FieldValueInvalid", f'Invalid value: "": {text}', self.base or "<nil>")])

    def too_many(self, path: str, actual: int, limit: int) -> None:
        noun = "item" if limit == 1 else "items"
        self.report("FieldValueTooMany", path, f"Too many: {actual}: must have at most {limit} {noun}")

    def merge(self, causes: Iterable[Cause]) -> None:
        for cause in causes:
            if cause not in self._known:
                if self.has_room:
                    self._known.add(cause)
                self.append(cause)


class ValueCheck:
    """The compiled checks of one schema. `run` returns how many of them passed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.types = _types(schema)
        self.is_nullable = bool(schema.get("nullable"))
        self.format = _format(schema)
        self.format_check = formats.STRING_FORMATS.get(self.format.replace("-", "")) if self.format else None
        self.enum: Sequence[Any] = schema.get("enum") or ()
        self.enum_members = frozenset(map(_identity, self.enum))
        self.max_length: int | None = schema.get("maxLength")
        self.min_length: int | None = schema.get("minLength")
        self.pattern: str = schema.get("pattern") or ""
        self.instructions = 0
        self.matches: Callable[[str], bool] | None = self._compile_pattern() if self.pattern else None
        self.bounds = _Bounds(schema) if _Bounds.KEYS & schema.keys() or "int32" in self.format else None
        self.max_items: int | None = schema.get("maxItems")
        self.min_items: int | None = schema.get("minItems")
        items = schema.get("items")
        self.items = ValueCheck(items) if isinstance(items, dict) else None
        self.key_fields: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
        self.max_properties: int | None = schema.get("maxProperties")
        self.min_properties: int | None = schema.get("minProperties")
        self.required: Sequence[str] = schema.get("required") or ()
        self.properties = {key: ValueCheck(below) for key, below in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        self.is_closed = additional is False
        self.values = ValueCheck(additional) if isinstance(additional, dict) else None
        self.alternatives = _Alternatives(schema) if _Alternatives.KEYS & schema.keys() else None
        self.steps = 1 + len(self.properties) + len(self.required)

    def _compile_pattern(self) -> Callable[[str], bool]:
        """A definition that was stored when its pattern was still taken stays; nothing matches it any more."""
        try:
            compiled = compile_pattern(self.pattern)
            self.instructions = compiled.instructions
            return compiled.matches
        except BadPattern as error:
            self.pattern = f"{self.pattern}, but pattern is invalid: {error}"
            return lambda _: False

    def run(self, value: Any, path: str, found: Problems, old: Any = ABSENT) -> int:
        if old is not ABSENT and self._is_kept(value, path, old):
            return 0
        found.steps.take(self.steps)
        if value is None:
            return self._check_null(path, found)
        passed = 2  # alternatives and enum are always asked
        if self.types or self.format:
            passed += 1 + self._check_type(value, path, found)
        if self.alternatives is not None:
            passed += self.alternatives.run(value, path, found, old)
        if isinstance(value, str):
            passed += 1
            self._check_string(value, path, found)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            passed += 2
            if self.bounds is not None:
                self.bounds.run(value, path, found)
        elif isinstance(value, list):
            passed += 2 + self._check_list(value, path, found, old)
        self._check_enum(value, path, found)
        if isinstance(value, dict):
            passed += 1 + self._check_object(value, path, found, old)
        return passed + 2

    def _is_kept(self, value: Any, path: str, old: Any) -> bool:
        """Whether a value is as it was: a list map in any order, a root only if all its fields are declared."""
        if old == value:
            is_declared = path or not isinstance(value, dict) or self.values is not None
            return bool(is_declared or value.keys() <= self.properties.keys())
        if not self.key_fields or not isinstance(value, list) or not isinstance(old, list) or len(value) != len(old):
            return False
        before = self._correlated(old)
        return all(before(item) == item for item in value)

    def _check_null(self, path: str, found: Problems) -> int:
        if self.types and not self.is_nullable:
            found.wrong_type(path, "null", ",".join(self.types))
        self._check_enum(None, path, found)
        return 0 if self.types and not self.is_nullable else 1

    def _check_type(self, value: Any, path: str, found: Problems) -> int:
        actual = _type_of(value)
        fits = actual in self.types or (actual == "integer" and "number" in self.types)
        fits = fits or (actual == "number" and "integer" in self.types and _is_whole(value))
        if fits:
            return 1
        is_numeric = "number" in self.types or "integer" in self.types
        if self.format and isinstance(value, str | list):
            if not is_numeric:
                return 1  # left to the format's own check
        elif self.format:
            found.wrong_type(path, _FORMAT_NAMES.get(type(value), ""), self.format)
            return 0
        found.wrong_type(path, actual, ",".join(self.types))
        return 0

    def _check_string(self, value: str, path: str, found: Problems) -> None:
        if self.max_length is not None and len(value) > self.max_length:
            noun = "byte" if self.max_length == 1 else "bytes"
            found.report("FieldValueTooLong", path, f"Too long: may not be more than {self.max_length} {noun}")
        elif self.min_length is not None and len(value) < self.min_length:
            found.invalid(path, value, f"{path} in body should be at least {self.min_length} chars long")
        elif self.matches is not None and not self._is_match(value, found):
            found.invalid(path, value, f"{path} in body should match '{self.pattern}'")
        if self.format_check is not None and not self.format_check(value):
            text = f"{path} in body must be of type {self.format}: {go_quote(value)}"
            found.report("FieldValueTypeInvalid", path, f"Invalid value: {go_quote(value)}: {text}")

    def _is_match(self, value: str, found: Problems) -> bool:
        """RE2 looks at each character once, at worst for each instruction of the pattern."""
        assert self.matches is not None
        found.steps.take(self.instructions * len(value) // _MATCHES_OF_A_STEP)
        return self.matches(value)

    def _check_enum(self, value: Any, path: str, found: Problems) -> None:
        # A null matches no enum, not even one that lists it: upstream compares types first.
        if self.enum and (value is None or _identity(value) not in self.enum_members):
            text = ""
            if found.has_room:
                allowed = (choice if isinstance(choice, str) else printed(choice) for choice in self.enum)
                choices = ", ".join(go_quote(choice) for choice in allowed)
                text = f"Unsupported value: {printed(value)}: supported values: {choices}"
            found.report("FieldValueNotSupported", path, text)

    def _check_list(self, value: list[Any], path: str, found: Problems, old: Any) -> int:
        passed = 0
        if self.items is not None:
            before = self._correlated(old)
            for index, item in enumerate(value):
                passed += self.items.run(item, under(path, f"[{index}]"), found, before(item))
        if self.min_items is not None and len(value) < self.min_items:
            text = f"{path} in body should have at least {self.min_items} items"
            found.invalid(path, len(value), text)
        if self.max_items is not None and len(value) > self.max_items:
            found.too_many(path, len(value), self.max_items)
        return passed

    def _correlated(self, old: Any) -> Any:
        """Finds the old form of an item; only items of a list map have an identity."""
        if not self.key_fields or not isinstance(old, list):
            return lambda _: ABSENT
        by_key = {self._key(item): item for item in old}
        return lambda item: by_key.get(self._key(item), ABSENT)

    def _key(self, item: Any) -> bytes:
        return _sorted_json([item.get(key) for key in self.key_fields] if isinstance(item, dict) else None)

    def _check_object(self, value: dict[str, Any], path: str, found: Problems, old: Any) -> int:
        size, passed = len(value), 0
        before: Mapping[str, Any] = old if isinstance(old, dict) else {}
        if self.min_properties is not None and size < self.min_properties:
            found.invalid(path, size, f"{path} in body should have at least {self.min_properties} properties")
        if self.max_properties is not None and size > self.max_properties:
            found.too_many(path, size, self.max_properties)
        if self.is_closed or self.values is not None:
            for key, item in value.items():
                if key in self.properties:
                    continue
                if self.values is not None:
                    passed += self.values.run(item, under(path, f".{key}"), found, before.get(key, ABSENT))
                else:
                    found.invalid(path, key, f"{path}.{key} in body is a forbidden property")
        for key, check in self.properties.items():
            if key in value:
                below = under(path, f".{key}") if path else key
                is_type_meta = not path and key in _TYPE_META
                passed += check.run(value[key], below, found, ABSENT if is_type_meta else before.get(key, ABSENT))
        for key in self.required:
            if key not in value:
                found.report("FieldValueRequired", f"{path}.{key}", "Required value")
        return passed


class _Bounds:
    """Limits of numbers."""

    KEYS = frozenset({"minimum", "maximum", "multipleOf"})

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.minimum: float | None = schema.get("minimum")
        self.maximum: float | None = schema.get("maximum")
        self.excludes_minimum = bool(schema.get("exclusiveMinimum"))
        self.excludes_maximum = bool(schema.get("exclusiveMaximum"))
        self.multiple_of: float | None = schema.get("multipleOf")
        self.is_int32 = schema.get("type") == "integer" and schema.get("format") == "int32"

    def run(self, value: float, path: str, found: Problems) -> None:
        # Compared, not looked up: Python would go through the whole range for a number with a fraction.
        if self.is_int32 and not (_INT32.start <= value < _INT32.stop and value == int(value)):
            found.rule(f"Checked value must be of type integer with format int32 in {path}")
        if self.multiple_of is not None and not _is_multiple(value, self.multiple_of):
            text = f"{path} in body should be a multiple of {number_text(self.multiple_of)}"
            found.invalid(path, value, text)
        if self.maximum is not None and _exceeds(value, self.maximum, self.excludes_maximum):
            comparison = "less than" if self.excludes_maximum else "less than or equal to"
            found.invalid(path, value, f"{path} in body should be {comparison} {number_text(self.maximum)}")
        if self.minimum is not None and _exceeds(-value, -self.minimum, self.excludes_minimum):
            comparison = "greater than" if self.excludes_minimum else "greater than or equal to"
            found.invalid(path, value, f"{path} in body should be {comparison} {number_text(self.minimum)}")


class _Alternatives:
    """anyOf, oneOf, allOf and not."""

    KEYS = frozenset({"anyOf", "oneOf", "allOf", "not"})

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.any_of = [ValueCheck(alternative) for alternative in schema.get("anyOf") or ()]
        self.one_of = [ValueCheck(alternative) for alternative in schema.get("oneOf") or ()]
        self.all_of = [ValueCheck(alternative) for alternative in schema.get("allOf") or ()]
        self.forbidden = ValueCheck(schema["not"]) if schema.get("not") is not None else None

    def run(self, value: Any, path: str, found: Problems, old: Any) -> int:
        passed = 0
        if self.any_of:
            tried = [_try(check, value, path, found, old) for check in self.any_of]
            best = next((result for result in tried if not result[1]), None) or _best(tried)
            if best[1]:
                found.rule(f'"{path}" must validate at least one schema (anyOf)')
            found.merge(best[1])
            passed += best[0]
        if self.one_of:
            passed += self._run_one_of(value, path, found, old)
        if self.all_of:
            tried = [_try(check, value, path, found, old) for check in self.all_of]
            for _, problems in tried:
                found.merge(problems)
            valid = sum(not problems for _, problems in tried)
            if valid != len(tried):
                found.rule(f'"{path}" must validate all the schemas (allOf){"" if valid else ". None validated"}')
            passed += sum(count for count, _ in tried)
        if self.forbidden is not None and not _try(self.forbidden, value, path, found, old)[1]:
            found.rule(f'"{path}" must not validate the schema (not)')
        return passed

    def _run_one_of(self, value: Any, path: str, found: Problems, old: Any) -> int:
        tried = [_try(check, value, path, found, old) for check in self.one_of]
        valid = [result for result in tried if not result[1]]
        if len(valid) == 1:
            return valid[0][0]
        summary = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        found.rule(f'"{path}" must validate one and only one schema (oneOf). {summary}')
        if valid:
            return 0
        best = _best(tried)
        found.merge(best[1])
        return best[0]


def _try(check: ValueCheck, value: Any, path: str, found: Problems, old: Any) -> tuple[int, Problems]:
    found.steps.take(_STEPS_OF_A_TRY)
    problems = Problems(found.base, found.steps)
    return check.run(value, path, problems, old), problems


def _best(tried: Sequence[tuple[int, Problems]]) -> tuple[int, Problems]:
    """The alternative with most passed checks; of equals the first."""
    return max(tried, key=lambda result: result[0])


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: Mapping[str, Any]) -> str:
    """The format, if it is one that Kubernetes knows for this type."""
    named: str = schema.get("format") or ""
    types = _types(schema)
    type_ = types[0] if len(types) == 1 else ""
    return named if named and formats.is_known(named, type_) else ""


def _type_of(value: Any) -> str:
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_FORMAT_NAMES = {int: "int64", float: "float64"}


def _is_whole(value: float) -> bool:
    """Whether a number with a fraction or an exponent stands for an integer; beyond 2^53 nobody knows which."""
    return abs(value) <= _MOST_EXACT and value == int(value)


def _identity(value: Any) -> Any:
    """What two JSON values have in common exactly if they are equal: true is not 1, but 1.0 is."""
    if isinstance(value, dict):
        return frozenset((key, _identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_identity, value))
    return frozenset((value,)) if isinstance(value, bool) else value


def _exceeds(value: float, limit: float, excludes: bool) -> bool:
    return value >= limit if excludes else value > limit


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and factor == int(factor):
        return value % int(factor) == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    return abs(quotient - round(quotient)) < 1e-9


def validate(check: ValueCheck, value: Any, base: str = "", old: Any = ABSENT) -> Problems:
    """Everything wrong with a value. `base` is put before every field, but not into the texts."""
    found = Problems(base)
    try:
        check.run(value, "", found, old)
    except _TooCostlyError:
        found.rule(f"validation takes more than {_MOST_STEPS} steps")
    return found


def pattern_error(pattern: str) -> str:
    """Why a pattern does not compile, or nothing."""
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        return f"must be a valid regular expression, but isn't: {error}"
    return ""
