"""The way in: an environment of declared variables compiles expressions to programs.

numbers = Environment({"self": schema_type})
program = numbers.compile("self.min <= self.max", BOOL)
program.evaluate({"self": {"min": 1, "max": 2}})      # True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.cel import literals
from fairlead.cel.compiling import Compiler
from fairlead.cel.errors import CelError, CompileError, ProgramError
from fairlead.cel.estimating import estimated_cost
from fairlead.cel.parsing import parse
from fairlead.cel.scope import Compiled, Meter, Scope
from fairlead.cel.sizes import Place
from fairlead.cel.syntax import Node, idents
from fairlead.cel.types import ObjectType, Type, fits

#: What one evaluation may cost (k8s.io/apiserver/pkg/apis/cel, `PerCallLimit`).
PER_CALL_LIMIT: Final = 1_000_000


class Program:
    """A compiled expression."""

    def __init__(
        self, source: str, node: Node, compiler: Compiler, compiled: Compiled, places: Mapping[str, int]
    ) -> None:
        self.source = source
        self._node, self._types, self._calls = node, compiler.types, compiler.calls
        self.type = compiled.type
        #: What it costs at least.
        self.weight = compiled.weight
        #: The declared variables that it reads.
        read = idents(node)
        self.names = frozenset(name for name in places if name.partition(".")[0] in read)
        self._run, self._size = compiled.run, compiler.scope.size
        self._places = {name: place for name, place in places.items() if name in self.names}

    def estimated_cost(self, root: Place) -> int:
        """What it can cost at most, if its variables are as large as is declared there."""
        return estimated_cost(self._node, self._types, self._calls, root)

    def evaluate(self, variables: Mapping[str, Any], budget: int = PER_CALL_LIMIT) -> Any:
        """The value; CelError says why there is none."""
        return self.metered(variables, Meter(budget))

    def metered(self, variables: Mapping[str, Any], meter: Meter) -> Any:
        """The same for one of several evaluations that share what they may cost."""
        frame: list[Any] = [None] * self._size
        frame[0] = meter
        meter.take(self.weight)
        for name, place in self._places.items():
            frame[place] = variables.get(name)
        try:
            return self._run(frame)
        except RecursionError:
            raise CelError("evaluation is nested too deep") from None


class Environment:
    """Variables, each with its type; and the object types that may be made by name. `has_bind`: there is `cel.bind`."""

    def __init__(
        self, variables: Mapping[str, Type], objects: Mapping[str, ObjectType] | None = None, *, has_bind: bool = False
    ) -> None:
        self._variables = dict(variables)
        self._objects = objects or {}
        self._has_bind = has_bind

    def compile(self, source: str, *wanted: Type) -> Program:
        """The program; `CompileError` says what is wrong, also with its type if it must have one of those."""
        node = parse(source, has_bind=self._has_bind)
        try:
            return self._program(source, node, wanted)
        except RecursionError:  # what the parser lets through can be deeper than Python follows, four calls to a level
            raise CompileError(source, [(0, "expression is nested too deep")]) from None

    def _program(self, source: str, node: Node, wanted: Sequence[Type]) -> Program:
        scope = Scope(self._variables)
        places = {name: index for index, name in enumerate(self._variables, 1)}
        compiler = Compiler(scope, self._objects)
        found = compiler.compile(node)
        if wrong := compiler.findings.errors or list(literals.faults(node)):
            raise CompileError(source, wrong)
        if wanted and not any(fits(type_, found.type) for type_ in wanted):
            raise WrongTypeError(found.type)
        try:
            literals.check_constants(node)
        except CelError as error:
            raise ProgramError(error) from None
        return Program(source, node, compiler, found, places)


class WrongTypeError(ValueError):
    """An expression is sound, and of a type that is not wanted."""

    def __init__(self, type_: Type) -> None:
        super().__init__(f"evaluates to {type_}")
        self.type = type_
