"""CEL expressions that select devices: what they know of a device, and what they may cost.

Source: dynamic-resource-allocation/cel/compile.go, `validateCELExpression` of pkg/apis/resource/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.cel.environment import Environment, Program, WrongTypeError
from fairlead.cel.errors import CompileError, ProgramError
from fairlead.cel.functions.quantities import QUANTITY
from fairlead.cel.sizes import Place
from fairlead.cel.types import BOOL, DYN, STRING, map_of
from fairlead.kinds.admission_expressions import MOST_CHARACTERS, object_of
from fairlead.kinds.device_names import DOMAIN_MAX, ID_MAX, MOST_ATTRIBUTES, VALUE_MAX, validate_count

_MOST_SELECTORS: Final = 32
_EXPRESSION_MAX: Final = 10 * 1024
#: Also what one evaluation may cost.
COST_MAX: Final = 1_000_000

_DEVICE: Final = object_of(
    "kubernetes.DRADevice",
    driver=STRING,
    attributes=map_of(STRING, map_of(STRING, DYN)),
    capacity=map_of(STRING, map_of(STRING, QUANTITY)),
    allowMultipleAllocations=BOOL,
)
_ENVIRONMENT: Final = Environment({"device": _DEVICE}, has_bind=True)


class _Attributes(Place):
    """The attributes of one domain: each is as large as any other, also where it is named as a field."""

    def step(self, name: str) -> Place:
        return self.below.get(name, self.below["@values"])


def _by_domain(of_one_domain: Place) -> Place:
    return Place(MOST_ATTRIBUTES, below={"@keys": Place(DOMAIN_MAX), "@values": of_one_domain})


_PLACE: Final = Place(
    0,
    below={
        "driver": Place(DOMAIN_MAX),
        "attributes": _by_domain(
            _Attributes(MOST_ATTRIBUTES, below={"@keys": Place(ID_MAX), "@values": Place(VALUE_MAX)})
        ),
        "capacity": _by_domain(Place(MOST_ATTRIBUTES, below={"@keys": Place(ID_MAX), "@values": Place(0)})),
    },
)


def are_bounded(selectors: Iterable[Obj], path: str, errors: Errors) -> bool:
    """Whether all expressions of an object together may be compiled."""
    if sum(len(_expression(selector)) for selector in selectors) <= MOST_CHARACTERS:
        return True
    errors.invalid(path, "", f"expressions have more than {MOST_CHARACTERS} characters together")
    return False


def validate_selectors(selectors: list[Obj], path: str, errors: Errors, *, is_stored: bool = False) -> None:
    """The selectors of a request or class; expressions that are stored already were valid then."""
    if not validate_count(selectors, _MOST_SELECTORS, path, errors):
        return
    for index, selector in enumerate(selectors):
        here = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            errors.required(here)
        elif not is_stored:
            _validate_expression(_expression(selector), f"{here}.expression", errors)


def _expression(selector: Obj) -> str:
    found: str = (selector.get("cel") or {}).get("expression", "")
    return found


def compiled(source: str) -> Program:
    """The expression, to be asked of the variable `device`. Raises CompileError, WrongTypeError."""
    return _ENVIRONMENT.compile(source, BOOL)


def estimated_cost(source: str) -> int:
    """What an expression could cost at most for a device; errors of `compiled` say why it is none."""
    return compiled(source).estimated_cost(_PLACE)


def _validate_expression(source: str, path: str, errors: Errors) -> None:
    if len(source.encode()) > _EXPRESSION_MAX:
        errors.too_long(path, _EXPRESSION_MAX)
        return
    try:
        if estimated_cost(source) > COST_MAX:
            errors.forbidden(path, "too complex, exceeds cost limit")
    except ProgramError as error:
        errors.internal(path, f"{error.step}: {error}")
    except CompileError as error:
        errors.invalid(path, source, f"{error.step}: {error}")
    except WrongTypeError as error:
        errors.invalid(path, source, f"must evaluate to bool or the unknown type, not {error.type}")
