"""Which devices an expression selects, found out once for each device of a slice.

Source: dynamic-resource-allocation/cel/compile.go (`DeviceMatches`, 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from fairlead.api.devices import Device, value_of
from fairlead.api.quantity import parse
from fairlead.caches import LruCache
from fairlead.cel.environment import Program, WrongTypeError
from fairlead.cel.errors import CelError, CompileError, TooCostlyError
from fairlead.cel.functions.formats import semver
from fairlead.cel.functions.quantities import CelQuantity
from fairlead.cel.scope import Meter
from fairlead.kinds.device_selectors import COST_MAX, compiled
from fairlead.scheduler.devices.effort import Effort
from fairlead.scheduler.devices.pools import Offered

#: Expressions whose answers a slice keeps, and programs that are kept for all.
_REMEMBERED: Final = 64


#: What a turn of the event loop can do of one evaluation, in units of CEL.
_QUICK: Final = 100_000


class SelectorError(Exception):
    """An expression cannot be asked of a device; says why."""


class TakesLong(Exception):
    """An expression that takes long must be asked of a device; once `job` has been called, its answer is known."""

    def __init__(self, job: Callable[[], None]) -> None:
        self.job = job


class _Domains(dict[str, Any]):
    """What is asked of a domain that a device knows nothing of finds an empty map there."""

    def __missing__(self, domain: str) -> dict[str, Any]:
        return {}


class Selectors:
    """Keeps programs; what they say is kept with each slice."""

    def __init__(self) -> None:
        self._programs: LruCache[str, Program] = LruCache(_REMEMBERED)

    def match(self, expression: str, offered: Offered, index: int, effort: Effort) -> bool:
        """Whether that device of the slice is meant. Raises SelectorError, TakesLong, and what `effort` raises."""
        effort.look_at()
        answer = _answers(expression, offered).get(index)
        if answer is None:
            program = self._program(expression)
            effort.check()
            answer = _asked(program, offered, index, effort, _QUICK)
            if answer is None:
                raise TakesLong(partial(_ask_fully, program, expression, offered, index, effort))
            _answers(expression, offered)[index] = answer
        if isinstance(answer, CelError):
            raise SelectorError(f"CEL runtime error: {answer}")
        return answer

    def _program(self, expression: str) -> Program:
        program = self._programs.get(expression)
        if program is None:
            try:
                program = compiled(expression)
            except (CompileError, WrongTypeError) as error:
                raise SelectorError(f"CEL compile error: compilation failed: {error}") from None
            self._programs.put(expression, program)
        return program


def _answers(expression: str, offered: Offered) -> dict[int, bool | CelError]:
    """What is known of an expression and the devices of the slice, by their places."""
    answers = offered.matches.get(expression)
    if answers is None:
        if len(offered.matches) >= _REMEMBERED:
            offered.matches.clear()
        answers = offered.matches[expression] = {}
    return answers


def _ask_fully(program: Program, expression: str, offered: Offered, index: int, effort: Effort) -> None:
    answer = _asked(program, offered, index, effort, COST_MAX)
    _answers(expression, offered)[index] = CelError(str(Meter.exceeded())) if answer is None else answer


def _asked(program: Program, offered: Offered, index: int, effort: Effort, most: int) -> bool | CelError | None:
    """None if that takes more than `most`."""
    device = offered.devices[index]
    meter = Meter(most)
    try:
        variables = {"device": _variables(device, offered.slice.spec.driver)}
        answer = program.metered(variables, meter)
    except TooCostlyError:
        return None
    except CelError as error:
        return error
    finally:
        effort.spend(most - meter.left)
    if not isinstance(answer, bool):
        return CelError("CEL result could not be converted to bool")
    return answer


def _variables(device: Device, driver: str) -> dict[str, Any]:
    attributes = {name: _attribute(name, value) for name, value in (device.attributes or {}).items()}
    capacity = {name: CelQuantity(parse(found.value)) for name, found in (device.capacity or {}).items()}
    return {
        "driver": driver,
        "attributes": _by_domain(attributes, driver),
        "capacity": _by_domain(capacity, driver),
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
    }


def _attribute(name: str, value: Mapping[str, Any]) -> Any:
    if (typed := value_of(value)) is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    kind, found = typed
    return semver(found) if kind == "version" else found


def _by_domain(values: Mapping[str, Any], driver: str) -> _Domains:
    found = _Domains()
    for name, value in values.items():
        domain, slash, own = name.rpartition("/")
        found.setdefault(domain if slash else driver, {})[own] = value
    return found
